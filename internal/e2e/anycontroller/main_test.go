package anycontroller_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// bellwether is what is tested.
const bellwether = "github.com/bellwether-k8s/bellwether/cmd/bellwether"

// replicasGroup is the group of the users of replicas.
const replicasGroup = "anycontroller:replicas"

// auditPolicy has the writes of replicas logged with the versions that they have led to.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  userGroups: ["` + replicasGroup + `"]
  verbs: [create, update, patch, delete]
- level: None
`

var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	e2e.Main(m, &shared, e2e.Options{AuditPolicy: auditPolicy}, e2e.Built(nil, bellwether))
}
