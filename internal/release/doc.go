// Command release proves what a release needs, before there is a tag: that the committed tree can be
// released as a version, and that a program outside of it gets every module by that version.
// RELEASING.md has the steps.
package main
