package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies this program into a directory, for the init container of a Pod whose program has
// another image: the image of bellwether has no shell to do so.
func install(directory string) (err error) {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.CreateTemp(directory, "bellwether-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	if _, err = io.Copy(to, from); err != nil {
		return errors.Join(err, to.Close())
	}
	if err = errors.Join(to.Chmod(0o755), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), filepath.Join(directory, "bellwether")) // a program that runs stays as it is
}

// runInstall returns the exit code.
func runInstall(arguments []string) int {
	if len(arguments) != 1 {
		fmt.Fprintln(os.Stderr, "usage: bellwether install DIRECTORY")
		return exitUsage
	}
	if err := install(arguments[0]); err != nil {
		fmt.Fprintln(os.Stderr, "bellwether install:", err)
		return exitUnavailable
	}
	return 0
}
