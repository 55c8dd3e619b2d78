package membership

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	testRing      = "r"
	testNamespace = "ns"
)

func storesOn(t *testing.T, n int) []*historyStore {
	t.Helper()
	server := apisim.NewServer()
	var all []*historyStore
	for range n {
		kube, err := kubernetes.NewForConfig(server.Client("l").Config())
		require.NoError(t, err)
		all = append(all, &historyStore{
			config: Config{Kube: kube, Namespace: testNamespace, Ring: testRing},
			over:   func(protocol.OwnerEpoch) bool { return false },
		})
	}
	return all
}

func TestTheHistoryIsFoundByTheNextSharder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storesOn(t, 2)
		require.ErrorIs(t, l[0].load(t.Context()), errNoHistory)
		require.NoError(t, l[0].begin(t.Context(), onlyA, nil))
		require.NoError(t, l[0].begin(t.Context(), both, nil))
		require.NoError(t, l[1].load(t.Context()))
		assert.Equal(t, protocol.HistoryOf(onlyA, both), l[1].known)
		require.NoError(t, l[1].settle(t.Context(), protocol.HistoryOf(both)))
		require.NoError(t, l[0].load(t.Context()))
		assert.Equal(t, protocol.HistoryOf(both), l[0].known)
	})
}

func TestBeginningTheSameMembershipAgainWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storesOn(t, 1)[0]
		require.NoError(t, l.begin(t.Context(), onlyA, nil))
		version := l.stored.ResourceVersion
		require.NoError(t, l.load(t.Context()))
		require.NoError(t, l.begin(t.Context(), onlyA, nil))
		assert.Equal(t, version, l.stored.ResourceVersion)
	})
}

// A deposed sharder cannot shrink the history of the next sharder. It has proved that the ring is
// settled under a former membership.
func TestADeposedSharderCannotShrinkTheHistoryOfItsSuccessor(t *testing.T) {
	for name, successor := range map[string]protocol.Membership{
		"a new membership":          onlyB,
		"one that was there before": onlyA,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := storesOn(t, 2)
				require.NoError(t, l[0].begin(t.Context(), onlyA, nil))
				require.NoError(t, l[0].begin(t.Context(), both, nil))
				require.NoError(t, l[1].load(t.Context()))
				require.NoError(t, l[1].begin(t.Context(), successor, nil))
				require.Error(t, l[0].settle(t.Context(), protocol.HistoryOf(both)))
				require.NoError(t, l[1].load(t.Context()))
				assert.True(t, l[1].known.Contains(protocol.HistoryOf(onlyA, both, successor)))
			})
		})
	}
}

func TestTwoShardersForgetNothingOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storesOn(t, 2)
		require.NoError(t, l[0].begin(t.Context(), onlyA, nil))
		require.NoError(t, l[1].load(t.Context()))
		require.NoError(t, l[0].begin(t.Context(), both, nil))
		require.NoError(t, l[1].begin(t.Context(), onlyB, nil), "after a conflict")
		assert.True(t, l[1].known.Contains(protocol.HistoryOf(onlyA, both, onlyB)))
	})
}

func TestADeletedHistoryIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storesOn(t, 1)[0]
		require.NoError(t, l.begin(t.Context(), onlyA, nil))
		require.NoError(t,
			l.config.Kube.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), HistoryName(testRing),
				metav1.DeleteOptions{}))
		require.NoError(t, l.begin(t.Context(), both, nil))
		require.NoError(t, l.load(t.Context()))
		assert.Equal(t, protocol.HistoryOf(onlyA, both), l.known)
	})
}

func TestAHistoryThatCannotBeReadIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storesOn(t, 1)[0]
		_, err := l.config.Kube.CoreV1().ConfigMaps(testNamespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: HistoryName(testRing)}, Data: map[string]string{historyKey: "x"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		err = l.load(t.Context())
		require.ErrorIs(t, err, errNoHistory)
		assert.ErrorContains(t, err, "ConfigMap ns/r.ring.bellwether.dev: ring history:")
		require.NoError(t, l.begin(t.Context(), onlyA, nil), "in its place")
		require.NoError(t, l.load(t.Context()))
	})
}

func TestAnErrorOfTheHistorySaysWhatToGrant(t *testing.T) {
	l := &historyStore{config: Config{Namespace: testNamespace, Ring: testRing}}
	err := l.failed("update", apierrors.NewForbidden(corev1.Resource("configmaps"), "",
		errors.New(`User "u" cannot update resource "configmaps"`)))
	assert.ErrorContains(t, err, `grant the verb "update" on resource configmaps of API group "" in namespace ns`)
}
