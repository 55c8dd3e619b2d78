package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/process"

// ExitCodeNotLeader is the exit code of a process that has lost its leadership (EX_TEMPFAIL of sysexits.h). Whatever supervises
// the process should start it again.
const ExitCodeNotLeader = process.ExitCode
