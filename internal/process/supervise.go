package process

import "os"

// Supervision is what [Supervise] does besides running a child.
type Supervision struct {
	// File is open in the child as descriptor [SupervisedFile]. It may be nil.
	File *os.File
	// Variable is the environment variable with the number of this process in the child if there is
	// a File.
	Variable string
	// Ended is called when the child has ended, with the exit code of Supervise, before that
	// returns. Descendants of the child may still run. Optional.
	Ended func(code int)
}

// SupervisedFile is the descriptor of [Supervision].File in the child.
const SupervisedFile = 3

// lifeline is a descriptor in the child, besides that of a File: the end of a pipe whose other end
// only the supervisor has.
const lifeline = SupervisedFile + 1

// ExitCannotStart is the shells' exit code for a program that cannot be executed.
const ExitCannotStart = 126
