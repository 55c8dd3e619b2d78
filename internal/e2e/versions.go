package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// Version is one version of an object, or its end.
type Version struct {
	// Resource is one of those that [ControlPlane.Versions] was asked for.
	Resource string
	// Revision is the resourceVersion, of the whole store.
	Revision int64
	// Object is the object as stored at this revision; for a deletion, as it was before.
	Object  metav1.Object
	Deleted bool
}

// reconnectPause is after how long etcd is asked again.
const reconnectPause = 50 * time.Millisecond

// Versions calls see with every version that objects have got since a namespace was created, and get
// from now on, in the order in which they were stored, until ctx has ended or see returns an error.
// The resources are plurals of Kubernetes' kinds, such as "configmaps", or custom resources with their
// group, such as "example.com/foos"; objects are those of the namespace. It asks etcd itself, and so
// misses nothing when the API server is restarted, or etcd. It has to begin within five minutes,
// before the API server has the past forgotten.
func (c *ControlPlane) Versions(ctx context.Context, namespace string, resources []string,
	see func(Version) error,
) error {
	created, err := c.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("e2e: versions: %w", err)
	}
	v := &versions{see: see, namespace: namespace, resources: resources}
	if v.next, err = strconv.ParseInt(created.ResourceVersion, 10, 64); err != nil {
		return fmt.Errorf("e2e: versions: %w", err)
	}
	for ctx.Err() == nil {
		err := c.watchEtcd(ctx, v)
		if refused := (refusedError{}); errors.As(err, &refused) {
			return refused.error
		}
		select { // etcd is being restarted
		case <-ctx.Done():
		case <-time.After(reconnectPause):
		}
	}
	return nil
}

// versions is how far the versions have been read.
type versions struct {
	namespace string
	resources []string
	next      int64 // revision
	see       func(Version) error
}

// refusedError ends the reading: to continue makes no sense.
type refusedError struct{ error }

// watchEtcd reads one watch to its end. One watch of a range with everything is in order; one for
// each prefix is not.
func (c *ControlPlane) watchEtcd(ctx context.Context, v *versions) error {
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": []byte("/registry/"), "range_end": []byte("/registry0"), "start_revision": strconv.FormatInt(v.next, 10),
		"prev_kv": true,
	}})
	if err != nil {
		return refusedError{err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.etcdPort.address()+"/v3/watch",
		bytes.NewReader(body))
	if err != nil {
		return refusedError{err}
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for stream := json.NewDecoder(response.Body); ; {
		var message watchMessage
		if err := stream.Decode(&message); err != nil {
			return err
		}
		if message.Result.CompactRevision > 0 {
			return refusedError{fmt.Errorf("e2e: versions: those from %d on were compacted", v.next)}
		}
		for _, e := range message.Result.Events {
			if err := v.take(e); err != nil {
				return refusedError{err}
			}
		}
	}
}

// watchMessage is the part of etcd's WatchResponse, as JSON, that is read.
type watchMessage struct {
	Result struct {
		CompactRevision int64        `json:"compact_revision,string"`
		Events          []watchEvent `json:"events"`
	} `json:"result"`
}

type watchEvent struct {
	Type     string   `json:"type"` // empty is PUT
	Now      keyValue `json:"kv"`
	Previous keyValue `json:"prev_kv"`
}

type keyValue struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value"`
	Revision int64  `json:"mod_revision,string"`
}

// take processes an event, unless it was seen before.
func (v *versions) take(e watchEvent) error {
	if e.Now.Revision < v.next {
		return nil
	}
	v.next = e.Now.Revision + 1 // each write of the API server has a revision of its own
	of := slices.IndexFunc(v.resources, func(resource string) bool {
		return strings.HasPrefix(string(e.Now.Key), "/registry/"+resource+"/"+v.namespace+"/")
	})
	if of < 0 {
		return nil
	}
	version := Version{Resource: v.resources[of], Revision: e.Now.Revision, Deleted: e.Type == "DELETE"}
	value := e.Now.Value
	if version.Deleted {
		value = e.Previous.Value
	}
	var err error
	if version.Object, err = decoded(value); err != nil {
		return fmt.Errorf("e2e: versions: decode %s at %d: %w", e.Now.Key, e.Now.Revision, err)
	}
	version.Object.SetResourceVersion(strconv.FormatInt(e.Now.Revision, 10))
	return v.see(version)
}

// decoded returns an object as it is stored: custom resources as JSON, others as Protocol Buffers.
func decoded(value []byte) (metav1.Object, error) {
	if bytes.HasPrefix(value, []byte("{")) {
		o := &unstructured.Unstructured{}
		return o, o.UnmarshalJSON(value)
	}
	stored, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	return meta.Accessor(stored)
}
