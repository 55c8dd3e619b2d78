// Package walkthrough does what docs/walkthrough.md says, and compares what is printed.
package walkthrough
