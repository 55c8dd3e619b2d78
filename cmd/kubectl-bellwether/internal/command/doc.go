// Package command has the commands of the plugin: their flags, what they read and how they print it.
package command
