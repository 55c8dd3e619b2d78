#!/bin/sh
# A fence agent of plugs that are files beside it. A plug is on if its file is there. It does not answer if the file
# <plug>.dead is.
PATH=/usr/bin:/bin
plugs=${0%/*}/plugs
while IFS='=' read -r name value; do
	case $name in
	action) action=$value ;;
	plug) plug=$value ;;
	esac
done
[ "$action" = metadata ] && exec cat "${0%/*}/metadata.xml"
sleep 0.2
[ -e "$plugs/$plug.dead" ] && exit 1
case $action in
on) : >"$plugs/$plug" ;;
off) rm -f "$plugs/$plug" ;;
*)
	if [ -e "$plugs/$plug" ]; then
		echo "Status: ON"
	else
		echo "Status: OFF"
		exit 2
	fi
	;;
esac
