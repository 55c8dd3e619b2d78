// Command release proves, before a tag exists, that the committed tree can be released as a version
// and that a program outside it gets every module by that version. RELEASING.md has the steps.
package main
