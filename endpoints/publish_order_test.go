package endpoints

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// span returns endpoints of consecutive addresses, on these ports.
func span(from, to int, ports ...Port) (all []Endpoint) {
	for i := from; i < to; i++ {
		for _, p := range ports {
			all = append(all, Endpoint{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), p})
		}
	}
	return all
}

var (
	webPort     = Port{"https", 443, corev1.ProtocolTCP, ""}
	renamedPort = Port{"tls", 443, corev1.ProtocolTCP, ""}
	metricsPort = Port{"metrics", 9090, corev1.ProtocolTCP, ""}
)

// stage is a Service whose slices are looked at before and after each write.
type stage struct {
	publisher
	t      *testing.T
	denied string // the verb that is; empty: none
	kept   []Endpoint
	gaps   int
}

func newStage(t *testing.T, published []Endpoint) *stage {
	client := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u"}})
	s := &stage{t: t, publisher: publisher{client: client, service: types.NamespacedName{Namespace: "n", Name: "s"}}}
	require.NoError(t, s.become(published))
	client.PrependReactor("*", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		gv := discoveryv1.SchemeGroupVersion
		list, err := client.Tracker().List(gv.WithResource("endpointslices"), gv.WithKind("EndpointSlice"), "n")
		require.NoError(t, err)
		shown := map[Endpoint]bool{}
		for _, slice := range list.(*discoveryv1.EndpointSliceList).Items {
			for _, d := range destinationsOf(&slice) {
				shown[d] = true
			}
		}
		for _, d := range s.kept {
			if !shown[d] {
				s.gaps++
			}
		}
		return a.GetVerb() == s.denied, nil, errors.New("denied")
	})
	return s
}

func (s *stage) become(all []Endpoint) error {
	now, err := s.read(s.t.Context())
	require.NoError(s.t, err)
	_, err = s.publish(s.t.Context(), now, all)
	return err
}

func (s *stage) published() []Endpoint {
	now, err := s.read(s.t.Context()) // looks once more
	require.NoError(s.t, err)
	return now.endpoints()
}

// What is published before and after is published all the time, also if it moves between slices that
// are full, or its port gets another name.
func TestNothingIsMissingBetweenTwoWrites(t *testing.T) {
	many := span(10, 2110, webPort)
	plain, more := span(1, 2, webPort), span(2, 3, webPort, metricsPort)
	for name, c := range map[string][2][]Endpoint{
		"one joins, below all":               {many, span(9, 2110, webPort)},
		"the first leaves":                   {many, span(11, 2110, webPort)},
		"one joins and another one leaves":   {many, slices.Delete(span(9, 2110, webPort), 1100, 1101)},
		"the port gets another name":         {span(1, 3, webPort), span(1, 3, renamedPort)},
		"one gets another port":              {span(1, 3, webPort), append(plain, more...)},
		"all leave but one that gets a port": {span(1, 9, webPort), span(8, 9, webPort, metricsPort)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c[0])
			after := map[Endpoint]bool{}
			for _, e := range c[1] {
				after[e.destination()] = true
			}
			for _, e := range c[0] {
				if d := e.destination(); after[d] {
					s.kept = append(s.kept, d)
				}
			}
			require.NoError(t, s.become(c[1]))
			assert.ElementsMatch(t, c[1], s.published())
			assert.Zero(t, s.gaps)
		})
	}
}

// Two endpoints change places. One of them is missing for a moment, and both are published then.
func TestSlicesThatSwapEndpointsAreWritten(t *testing.T) {
	one := append(span(1, 2, webPort), span(2, 3, webPort, metricsPort)...)
	two := append(span(1, 2, webPort, metricsPort), span(2, 3, webPort)...)
	s := newStage(t, one)
	require.NoError(t, s.become(two))
	assert.ElementsMatch(t, two, s.published())
}

// The slice that an endpoint moves to cannot be written. The one that shows it stays, and what else has
// changed is published.
func TestAFailedWriteHidesNothing(t *testing.T) {
	for _, verb := range []string{"create", "update"} {
		t.Run(verb, func(t *testing.T) {
			before := append(span(1, 2, webPort), span(2, 3, webPort, metricsPort)...)
			moved := append(span(1, 2, webPort, metricsPort), span(2, 3, webPort, metricsPort)...)
			if verb == "create" {
				before, moved = span(1, 2, webPort), span(1, 2, webPort, metricsPort)
			}
			s := newStage(t, before)
			s.denied = verb
			port := Port{Number: 443, Protocol: corev1.ProtocolTCP}
			s.kept = []Endpoint{{netip.AddrFrom4([4]byte{10, 0, 0, 1}), port}}
			for range 3 {
				require.Error(t, s.become(moved))
			}
			assert.Subset(t, s.published(), span(1, 2, webPort))
			s.denied = ""
			require.NoError(t, s.become(moved))
			assert.ElementsMatch(t, moved, s.published())
			assert.Zero(t, s.gaps)
		})
	}
}
