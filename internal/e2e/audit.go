package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	auditLogFile    = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
)

// defaultAuditPolicy logs the user, verb and object of each request when it is over, without the
// content. It logs a watch also when its response begins.
const defaultAuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// AuditEvent is one line of the API server's audit log.
type AuditEvent struct {
	// ID is the same for all stages of a request.
	ID string
	// Stage is ResponseComplete, for long-running requests (watches) ResponseStarted before it, or
	// Panic.
	Stage string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb   string
	User   string
	Groups []string
	// Pod is the UID of the Pod that the client's token is bound to; empty: none.
	Pod types.UID
	// UserAgent is what the client calls itself.
	UserAgent string

	APIGroup    string
	Resource    string
	Subresource string
	Namespace   string
	// Name is "" for lists and watches, and for objects created with generateName.
	Name string

	// Code is the HTTP status of the response.
	Code int
	// Received is when the API server had read the request's header, At when it reached Stage:
	// microseconds on the wall clock of this machine.
	Received time.Time
	At       time.Time
	// RequestURI is the path with its query.
	RequestURI string

	// What follows is of the object in the response, if [Options].AuditPolicy has responses logged. UID
	// is also that of an object for whose deletion the response is a Status.
	Kind            string
	UID             types.UID
	ResourceVersion string
	Annotations     map[string]string
	Holder          string // of a Lease
}

// Write says whether the event is about a request that changes something.
func (e AuditEvent) Write() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// auditLine is the part of audit.k8s.io/v1 Event that we read.
type auditLine struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
		Extra    struct {
			PodUIDs []types.UID `json:"authentication.kubernetes.io/pod-uid"`
		} `json:"extra"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Response struct {
		Kind     string `json:"kind"`
		Metadata struct {
			UID             types.UID         `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
		Details struct {
			UID types.UID `json:"uid"`
		} `json:"details"`
	} `json:"responseObject"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time `json:"stageTimestamp"`
}

// auditLog is the part of the log that was read. Tests that poll must not read all of it each time.
type auditLog struct {
	mu     sync.Mutex
	tail   Tail
	events []AuditEvent
}

// Audit returns the audit log so far, of all runs of the API server, in the order in which requests
// ended. A client may have its response a moment before the line exists. So poll for an expected
// event, and check for an unexpected one only after a later event has appeared. A write whose client
// was gone before the answer may be committed, and have an error in the log; one of an API server that
// was killed may not be there.
func (c *ControlPlane) Audit() ([]AuditEvent, error) {
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	err := c.readAudit(func(e AuditEvent) { c.audit.events = append(c.audit.events, e) })
	return slices.Clip(c.audit.events), err
}

// DigestAudit calls see with each event since the last call, and forgets it. It is for runs whose
// log would fill memory and disk. Audit then returns nothing.
func (c *ControlPlane) DigestAudit(see func(AuditEvent)) error {
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	c.audit.tail.Discard = true
	return c.readAudit(see)
}

// readAudit reads on in the log. The caller holds the mutex.
func (c *ControlPlane) readAudit(see func(AuditEvent)) error {
	c.audit.tail.Path = c.path(auditLogFile) // which appears with the first request
	return c.audit.tail.Read(func(line []byte) error {
		e, err := parseAudit(line)
		if err != nil {
			return err
		}
		see(e)
		return nil
	})
}

// auditStart is what every line starts with.
var auditStart = []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1"`)

// parseAudit parses a line. An API server that was killed while it wrote one has left the beginning
// of it before the first line of the next run.
func parseAudit(line []byte) (AuditEvent, error) {
	var l auditLine
	if err := json.Unmarshal(line[max(0, bytes.LastIndex(line, auditStart)):], &l); err != nil {
		return AuditEvent{}, fmt.Errorf("e2e: parse audit log, %q: %w", line, err)
	}
	var pod types.UID
	if uids := l.User.Extra.PodUIDs; len(uids) > 0 {
		pod = uids[0]
	}
	return AuditEvent{
		ID: l.AuditID, Stage: l.Stage, Verb: l.Verb,
		User: l.User.Username, Groups: l.User.Groups, Pod: pod, UserAgent: l.UserAgent,
		APIGroup: l.ObjectRef.APIGroup, Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name,
		Code: l.ResponseStatus.Code, Received: l.RequestReceivedTimestamp, At: l.StageTimestamp,
		RequestURI: l.RequestURI,
		Kind:       l.Response.Kind, UID: cmp.Or(l.Response.Metadata.UID, l.Response.Details.UID),
		ResourceVersion: l.Response.Metadata.ResourceVersion,
		Annotations:     l.Response.Metadata.Annotations, Holder: l.Response.Spec.HolderIdentity,
	}, nil
}
