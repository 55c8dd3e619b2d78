// Package lab is machines and the devices that give them power or storage, on the loopback
// interface, which real fence agents accept: BMCs that speak IPMI (ipmi_sim of OpenIPMI) and
// Redfish, power distribution units of APC and Eaton (Net-SNMP's snmpd), and a Fibre Channel switch
// of Brocade (telnet).
//
// What a device switches is a [Plug]; what happens to the machine behind it is up to a function of
// the test. Plugs can be told to lie, to be slow or to be late, devices to hang. Everything that a
// lab has started ends with it, and with its process.
//
// The programs come from Debian's packages, see [Install]. Linux only.
package lab
