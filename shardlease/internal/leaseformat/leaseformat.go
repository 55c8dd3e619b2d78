// Package leaseformat reads and checks values of a shard's Lease, for the shard and for those that
// observe it.
package leaseformat

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ReturnWithin parses for how long after its release a shard is expected back. A value that no
// shard would have written counts as zero, so that the shard's objects go to others.
func ReturnWithin(value string, longest time.Duration) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 16)
	if d := time.Duration(seconds) * time.Second; err == nil && d <= longest {
		return d
	}
	return 0
}

// IdentityProblems returns the rules that the identity of a shard breaks. It is the name of a Lease
// and the value of a label.
func IdentityProblems(identity string) []string {
	problems := validation.IsDNS1123Subdomain(identity)
	if len(identity) > validation.LabelValueMaxLength {
		problems = append(problems, "must be a label value: "+validation.MaxLenError(validation.LabelValueMaxLength))
	}
	return problems
}
