package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	auditLogFile    = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
)

// auditPolicy logs who did what to which object, without its content, when a request is over; a watch also when its
// response begins.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// AuditEvent is one line of the API server's audit log.
type AuditEvent struct {
	// ID is the same for all stages of a request.
	ID string
	// Stage is ResponseComplete, for long-running requests (watches) ResponseStarted before it, or Panic.
	Stage string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb   string
	User   string
	Groups []string
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
	// Received is when the API server had read the request's header, At when it reached Stage: microseconds on the
	// wall clock of this machine.
	Received time.Time
	At       time.Time
	// RequestURI is the path with its query.
	RequestURI string
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
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time `json:"stageTimestamp"`
}

// auditLog is what has been read of the log so far: tests that poll must not read it all again each time.
type auditLog struct {
	mu     sync.Mutex
	offset int64
	events []AuditEvent
}

// Audit returns the audit log so far, of all runs of the API server, in the order in which requests ended. A client
// may have its response a moment before the line is there: poll for what must be there, and look for what must not be
// there after something later has shown up. An API server that was killed may have committed a write of which the
// log says nothing.
func (c *ControlPlane) Audit() ([]AuditEvent, error) {
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	file, err := os.Open(filepath.Join(c.Dir, auditLogFile))
	if errors.Is(err, fs.ErrNotExist) { // it appears with the first request
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("e2e: read audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(c.audit.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("e2e: read audit log: %w", err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("e2e: read audit log: %w", err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the last line may still be being written
	events, err := parseAudit(content)
	if err != nil {
		return nil, err
	}
	c.audit.offset += int64(len(content))
	c.audit.events = append(c.audit.events, events...)
	return slices.Clip(c.audit.events), nil
}

func parseAudit(content []byte) ([]AuditEvent, error) {
	var events []AuditEvent
	for line := range bytes.Lines(content) {
		var l auditLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("e2e: parse audit log, %q: %w", line, err)
		}
		events = append(events, AuditEvent{
			ID: l.AuditID, Stage: l.Stage, Verb: l.Verb,
			User: l.User.Username, Groups: l.User.Groups, UserAgent: l.UserAgent,
			APIGroup: l.ObjectRef.APIGroup, Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
			Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name,
			Code: l.ResponseStatus.Code, Received: l.RequestReceivedTimestamp, At: l.StageTimestamp,
			RequestURI: l.RequestURI,
		})
	}
	return events, nil
}
