package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/lease"

// AddressAnnotation is the annotation of the Lease that holds its leader's [Config].Address.
const AddressAnnotation = lease.AddressAnnotation
