package fenceagents

// provingOff are the programs that print OFF only for what cannot continue: the machine has no
// power, the virtual machine has ended, or the port is closed. Others also print it for what is
// suspended, missing or in a state unknown to them. The table in docs/fencing.md shows what each
// program calls off. It holds for one plug, because lists and missing_as_off are refused.
var provingOff = []string{
	// BMCs and chassis
	"fence_bladecenter", "fence_drac5", "fence_hds_cb", "fence_hpblade", "fence_idrac", "fence_ilo", "fence_ilo2",
	"fence_ilo3", "fence_ilo4", "fence_ilo5", "fence_ilo_moonshot", "fence_imm", "fence_ipmilan",
	"fence_ipmilanplus", "fence_redfish", "fence_rsa", "fence_rsb",
	// power distribution units
	"fence_cdu", "fence_eaton_snmp", "fence_eps", "fence_lindypdu", "fence_netio", "fence_powerman", "fence_raritan",
	// virtual machines
	"fence_gce", "fence_ibm_powervs", "fence_ibm_vpc", "fence_openstack", "fence_xenapi",
	// switches
	"fence_brocade", "fence_sanbox2",
}
