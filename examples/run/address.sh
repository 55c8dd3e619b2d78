#!/bin/sh
# A virtual IP address that one host of several has: address.sh 192.0.2.1/32 eth0 [flags of bellwether run]
# "flush" succeeds without the address, too: the command of --after also runs when there is nothing to clear.
address=$1 interface=$2
shift 2
exec bellwether run --lease virtual-address "$@" \
	--after "ip address flush to $address dev $interface" \
	-- sh -c "ip address replace $address dev $interface && exec sleep infinity"
