package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// value holds the fields of a [ConfigMapStore] entry that this package reads.
type value struct {
	Name              string          `json:"name,omitempty"`
	Port              int32           `json:"port"`
	Protocol          corev1.Protocol `json:"protocol"`
	AppProtocol       string          `json:"appProtocol,omitempty"`
	CreationTimestamp metav1.Time     `json:"creationTimestamp"`
	UpdateTimestamp   metav1.Time     `json:"updateTimestamp"`
	Incarnation       *author         `json:"incarnation,omitempty"`
}

// author is the incarnation that wrote an entry, with the creation timestamp that it wrote.
// Versions without this field keep it when they overwrite an entry, but write another timestamp.
type author struct {
	Name              string      `json:"name"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
}

func newAuthor(incarnation string, created metav1.Time) *author {
	if incarnation == "" {
		return nil
	}
	return &author{incarnation, created}
}

// incarnation returns the incarnation of the process that wrote the entry, or "" if it gave none.
func (v value) incarnation() string {
	if v.Incarnation == nil || !v.Incarnation.CreationTimestamp.Equal(&v.CreationTimestamp) {
		return ""
	}
	return v.Incarnation.Name
}

// fields are the names of the fields that this package writes.
var fields = []string{"name", "port", "protocol", "appProtocol", "creationTimestamp", "updateTimestamp", "incarnation"}

// parseEntry parses the value of a key. A malformed entry has a problem and no endpoint.
func parseEntry(key, text string) entry {
	e := entry{mark: text, raw: text}
	address, port, err := parseEntryKey(key)
	if err != nil {
		e.problem = err
		return e
	}
	var v value
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		e.problem = err
		return e
	}
	e.created, e.incarnation = v.CreationTimestamp.Time, v.incarnation()
	if v.Protocol == "" {
		v.Protocol = corev1.ProtocolTCP
	}
	endpoint := Endpoint{address, Port{Name: v.Name, Number: v.Port, Protocol: v.Protocol, AppProtocol: v.AppProtocol}}
	switch e.problem = endpoint.problem(); {
	case e.problem != nil:
	case v.Port != port:
		e.problem = fmt.Errorf("port is %d, not %d as in the key", v.Port, port)
	case v.UpdateTimestamp.IsZero():
		e.problem = errors.New("updateTimestamp is missing")
	default:
		e.endpoints = []Endpoint{endpoint}
	}
	return e
}

// renewed returns the next value of one of this instance's entries. It keeps unknown fields.
func renewed(old entry, endpoint Endpoint, born time.Time, h heartbeat) string {
	all := map[string]json.RawMessage{}
	var before value
	if text, ok := old.raw.(string); ok {
		if json.Unmarshal([]byte(text), &all) != nil || all == nil {
			all = map[string]json.RawMessage{} // not an entry: overwrite it
		}
		_ = json.Unmarshal([]byte(text), &before) // best effort: the entry may be malformed
	}
	born = latestCreation(born, before.CreationTimestamp.Time)
	for name := range all {
		for _, ours := range fields {
			if strings.EqualFold(name, ours) {
				delete(all, name)
			}
		}
	}
	p, created := endpoint.Port, metav1.NewTime(born.UTC())
	known, err := json.Marshal(value{
		Name: p.Name, Port: p.Number, Protocol: p.Protocol, AppProtocol: p.AppProtocol,
		CreationTimestamp: created,
		UpdateTimestamp:   metav1.NewTime(nextTimestamp(h.wall, before.UpdateTimestamp.Time, time.Second)),
		Incarnation:       newAuthor(h.incarnation, created),
	})
	if err == nil {
		err = json.Unmarshal(known, &all)
	}
	if err != nil {
		panic(err) // cannot fail: strings, numbers and times of this century
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // cannot fail: all values are JSON
	}
	return string(text)
}
