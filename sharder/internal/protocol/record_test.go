package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRecordsSurviveTheirEncoding(t *testing.T) {
	for _, r := range []Record{
		{UID: "u", Shard: "a", LeaseUID: "l", Epoch: 1, State: StateOwned},
		{
			UID: "u", Shard: "a", LeaseUID: "l", Epoch: 7, State: StateFree,
			Left: []OwnerEpoch{{"b", "m", 1}, {"c", "n", 2}},
		},
		{
			UID: "u", Shard: "a", LeaseUID: "l", Epoch: 1, State: StateOwned,
			ChildFloor: map[string]string{"apps/v1/deployments": "12", "v1/pods": ""},
			Childless:  map[string]string{"v1/pods": "13"},
		},
	} {
		again, err := ParseRecord(r.Encode())
		require.NoError(t, err)
		assert.Equal(t, r, again)
	}
}

// The format of a record must not change. It is a contract between replicas of different versions.
func TestRecordFormatStands(t *testing.T) {
	r := Record{
		UID: "u", Shard: "a", LeaseUID: "l", Epoch: 7, State: StateFree,
		Left:       []OwnerEpoch{{"b", "m", 1}, {"c", "n", 2}},
		ChildFloor: map[string]string{"apps/v1/deployments": "12"}, Childless: map[string]string{"v1/pods": "13"},
	}
	assert.JSONEq(t, `{"uid":"u","shard":"a","leaseUID":"l","epoch":7,"state":"free",`+
		`"left":[{"shard":"b","leaseUID":"m","epoch":1},{"shard":"c","leaseUID":"n","epoch":2}],`+
		`"childFloor":{"apps/v1/deployments":"12"},"childless":{"v1/pods":"13"}}`, r.Encode())
}

func TestMalformedRecordsAreNone(t *testing.T) {
	for _, value := range []string{
		``, `{`, `null`, `[]`, `"a"`, `{}`,
		`{"uid":"u","shard":"","leaseUID":"l","epoch":1,"state":"owned"}`,
		`{"uid":"u","shard":"a b","leaseUID":"l","epoch":1,"state":"owned"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":0,"state":"owned"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":-1,"state":"owned"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":1.5,"state":"owned"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":"1","state":"owned"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":99999999999999999999,"state":"owned"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":1,"state":"other"}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":1}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":1,"state":"owned","left":[{}]}`,
		`{"uid":"u","shard":"a","leaseUID":"l","epoch":1,"state":"owned"} x`,
	} {
		_, err := ParseRecord(value)
		assert.Error(t, err, value)
	}
}

func TestRecordsCountOnTheirOwnObjectOnly(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	n := KeysOf("r").Of(resource)
	value := Record{UID: "u", Shard: "a", LeaseUID: "l", Epoch: 1, State: StateOwned}.Encode()
	original := &metav1.ObjectMeta{
		UID: "u", Labels: map[string]string{n.Seal: SealOf(value)}, Annotations: map[string]string{n.Record: value},
	}
	r, ok := n.RecordOf(original)
	assert.True(t, ok)
	assert.Equal(t, "a", r.Shard)

	copied := &metav1.ObjectMeta{UID: "v", Labels: original.Labels, Annotations: original.Annotations}
	_, ok = n.RecordOf(copied)
	assert.False(t, ok)

	_, ok = KeysOf("other").Of(resource).RecordOf(original)
	assert.False(t, ok)
}

func TestAnyDrainLabelIsADrain(t *testing.T) {
	n := KeysOf("r")
	assert.False(t, n.Draining(&metav1.ObjectMeta{}))
	assert.True(t, n.Draining(&metav1.ObjectMeta{Labels: map[string]string{n.Drain: ""}}))
	assert.True(t, n.Draining(&metav1.ObjectMeta{Labels: map[string]string{n.Drain: "false"}}))
}

func FuzzParseRecord(f *testing.F) {
	f.Add(
		Record{
			UID: "u", Shard: "a", LeaseUID: "l", Epoch: 7, State: StateFree,
			Left: []OwnerEpoch{{"b", "m", 1}},
		}.Encode(),
	)
	f.Fuzz(func(t *testing.T, value string) {
		r, err := ParseRecord(value)
		if err != nil {
			assert.Zero(t, r)
			return
		}
		again, err := ParseRecord(r.Encode())
		require.NoError(t, err)
		assert.Equal(t, r.Encode(), again.Encode())
	})
}
