// Package command has the commands of the plugin: flags, what they read, and how it is printed.
package command
