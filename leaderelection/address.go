package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/lease"

// AddressAnnotation is the annotation of the Lease with the [Config].Address of its leader, for those who look for it.
const AddressAnnotation = lease.AddressAnnotation
