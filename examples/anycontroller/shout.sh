#!/usr/bin/env bash
# Keeps a ConfigMap with the text in upper case for each Greeting. Needs kubectl 1.28 and jq.
set -u -o pipefail
resync=${RESYNC:-300} # seconds, after which everything is listed again

# desired makes the ConfigMap of the Greeting that it reads.
desired() {
	jq '{apiVersion: "v1", kind: "ConfigMap",
		metadata: {name: ("shout-" + .metadata.name), namespace: .metadata.namespace, ownerReferences: [
			{apiVersion, kind, name: .metadata.name, uid: .metadata.uid, controller: true}]},
		data: {text: (.spec.text | ascii_upcase)}}'
}

reconcile() { # namespace name
	local greeting
	greeting=$(kubectl get greeting "$2" --namespace "$1" --ignore-not-found --output json) || return
	if [[ -z $greeting ]] || jq --exit-status .metadata.deletionTimestamp <<<"$greeting" >/dev/null; then
		return 0 # the garbage collector deletes the ConfigMap
	fi
	desired <<<"$greeting" |
		kubectl apply --server-side --force-conflicts --field-manager shout --validate=false --filename - || return
	jq '{status: {shout: (.spec.text | ascii_upcase)}}' <<<"$greeting" |
		kubectl patch greeting "$2" --namespace "$1" --subresource status --type merge --patch-file /dev/stdin
}

declare -A due # Greetings to reconcile, as "namespace name", and when
while :; do
	# Everything is listed, and then watched until the connection or the time is over.
	exec {changes}< <(exec timeout "$resync" kubectl get greetings --all-namespaces --watch \
		--output 'jsonpath={.metadata.namespace} {.metadata.name}{"\n"}')
	while :; do
		read -r -t 1 -u "$changes" key
		ended=$?
		if ((ended == 0)); then
			due[$key]=0
		fi
		for key in "${!due[@]}"; do
			((due[$key] <= SECONDS)) || continue
			unset "due[$key]"
			# shellcheck disable=SC2086 # two words
			reconcile $key || due[$key]=$((SECONDS + 2)) # a conflict, too many requests, a server that is away
		done
		if ((ended > 0 && ended <= 128)); then # 128 and above: nothing new within a second
			break
		fi
	done
	exec {changes}<&-
	sleep 1
done
