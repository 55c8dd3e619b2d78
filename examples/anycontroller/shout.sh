#!/usr/bin/env bash
# Keeps a ConfigMap with the text in upper case for each Greeting. Needs kubectl 1.28 and jq.
set -u -o pipefail
resync=${RESYNC:-300} # seconds, after which everything is listed again

reconcile() { # namespace name greeting
	if jq --exit-status .metadata.deletionTimestamp <<<"$3" >/dev/null; then
		return 0 # the garbage collector deletes the ConfigMap
	fi
	jq '{apiVersion: "v1", kind: "ConfigMap",
		metadata: {name: ("shout-" + .metadata.name), namespace: .metadata.namespace, ownerReferences: [
			{apiVersion, kind, name: .metadata.name, uid: .metadata.uid, controller: true}]},
		data: {text: (.spec.text | ascii_upcase)}}' <<<"$3" |
		kubectl apply --server-side --force-conflicts --field-manager shout --validate=false --filename - || return
	if jq --exit-status '.status.shout == (.spec.text | ascii_upcase)' <<<"$3" >/dev/null; then
		return 0
	fi
	jq '{metadata: {resourceVersion: .metadata.resourceVersion}, status: {shout: (.spec.text | ascii_upcase)}}' <<<"$3" |
		kubectl patch greeting "$2" --namespace "$1" --subresource status --type merge --patch-file /dev/stdin
}

declare -A cache due # Greetings by namespace and name; when to reconcile them
while :; do
	# Everything is listed, and then watched until the connection or the time is over.
	exec {changes}< <(
		timeout "$resync" kubectl get greetings --all-namespaces --watch --output-watch-events --output json |
			jq --unbuffered --raw-output '[.type, (.object.metadata | .namespace, .name), (.object | tojson)] | join(" ")'
	)
	cache=() due=()
	while :; do
		if read -r -t 0 -u "$changes"; then # there is a line, or the end
			read -r -u "$changes" event namespace name greeting || break
			if [[ $event == DELETED ]]; then
				unset "cache[$namespace $name]" "due[$namespace $name]"
			else
				cache[$namespace $name]=$greeting due[$namespace $name]=0
			fi
			continue
		fi
		for key in "${!due[@]}"; do
			((due[$key] <= SECONDS)) || continue
			due[$key]=$((SECONDS + 2)) # after a conflict, too many requests, or without a server
			# shellcheck disable=SC2086 # two words
			reconcile $key "${cache[$key]}" && unset "due[$key]"
			continue 2
		done
		sleep 0.2
	done
	exec {changes}<&-
	sleep 1
done
