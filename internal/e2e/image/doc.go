// Package image writes container images of Go programs, without a container engine and without a
// base image: a static program, a user that is not root, and an empty /tmp.
//
// The same sources and the same version of Go give the same digests, in any directory ([Build]).
// Each image has the list of the modules that its program is made of, as SPDX ([SBOM]).
package image
