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

// value of an entry in a [ConfigMapStore], the fields that we know.
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
// Versions that do not know the field leave it in an entry that they write over, but write a
// timestamp of their own.
type author struct {
	Name              string      `json:"name"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
}

// newAuthor returns nil without an incarnation.
func newAuthor(incarnation string, created metav1.Time) *author {
	if incarnation == "" {
		return nil
	}
	return &author{incarnation, created}
}

// incarnation is that of the process that wrote the entry; empty if it gave none.
func (v value) incarnation() string {
	if v.Incarnation == nil || !v.Incarnation.CreationTimestamp.Equal(&v.CreationTimestamp) {
		return ""
	}
	return v.Incarnation.Name
}

// fields are the names of those that we write.
var fields = []string{"name", "port", "protocol", "appProtocol", "creationTimestamp", "updateTimestamp", "incarnation"}

// parseEntry reads what stands under a key. What is malformed has a problem, and no endpoint.
func parseEntry(key, text string) entry {
	e := entry{mark: text, raw: text}
	address, port, err := parseKey(key)
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

// renewed is what to write over an own entry. Fields that we do not know stay.
func renewed(old entry, endpoint Endpoint, born time.Time, h heartbeat) string {
	all := map[string]json.RawMessage{}
	var before value
	if text, ok := old.raw.(string); ok {
		if json.Unmarshal([]byte(text), &all) != nil || all == nil {
			all = map[string]json.RawMessage{} // whatever it is, it is no entry
		}
		_ = json.Unmarshal([]byte(text), &before) // of a malformed one, what can be read
	}
	born = youngest(born, before.CreationTimestamp.Time)
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
		UpdateTimestamp:   metav1.NewTime(following(h.wall, before.UpdateTimestamp.Time, time.Second)),
		Incarnation:       newAuthor(h.incarnation, created),
	})
	if err == nil {
		err = json.Unmarshal(known, &all)
	}
	if err != nil {
		panic(err) // strings, numbers and times of this century
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // all of it was JSON
	}
	return string(text)
}
