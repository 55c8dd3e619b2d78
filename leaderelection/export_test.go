package leaderelection

import (
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

// Supervise has a simulated supervisor for the processes of c.
func (c *Config) Supervise(ledger func(mark string) lease.Ledger) {
	c.Supervisor = &leasehold.SupervisorClient{
		Open: func(c lease.Claim, _ *zap.Logger) (lease.Ledger, func(), error) { return ledger(c.Process), nil, nil },
	}
}

// ReportIn is the file for the termination message of a simulated container.
func (c *Config) ReportIn(file string) { c.terminationLog = file }

// Observe is what the lease code calls with a record that names such a holder.
func (e *Elector) Observe(holder string) {
	e.observe(lease.RecordOf(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}))
}
