package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/process"

// ExitCodeNotLeader is the exit code of a process that lost its leadership (EX_TEMPFAIL of
// sysexits.h). Its supervisor should restart it.
const ExitCodeNotLeader = process.ExitCode
