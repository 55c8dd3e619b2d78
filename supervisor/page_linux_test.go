package supervisor

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

func TestCredentialsAreThoseOfTheConfig(t *testing.T) {
	given := &rest.Config{
		Host: "https://127.0.0.1:6443", APIPath: "/x", UserAgent: "me", Username: "u", Password: "p",
		BearerToken: "t", Impersonate: rest.ImpersonationConfig{UserName: "i", Groups: []string{"g"}},
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: "s", CAData: []byte("ca"), CAFile: "ca.crt", CertFile: "c", KeyFile: "k",
			NextProtos: []string{"h2"},
		},
		DisableCompression: true,
	}
	c, err := credentialsOf(given)
	require.NoError(t, err)
	text, err := json.Marshal(c)
	require.NoError(t, err)
	var read credentials
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, given, read.config())
}

// A token from a file is out of date soon: the supervisor reads the file when it needs it.
func TestTokensAreReadAgain(t *testing.T) {
	c, err := credentialsOf(&rest.Config{BearerToken: "old", BearerTokenFile: "token"})
	require.NoError(t, err)
	assert.Empty(t, c.config().BearerToken)
	assert.Equal(t, "token", c.config().BearerTokenFile)
}

func TestWhatAnotherProcessCannotUseIsRefused(t *testing.T) {
	_, err := credentialsOf(nil)
	assert.EqualError(t, err, "config: must not be nil")
	for field, config := range map[string]*rest.Config{
		"ExecProvider":  {ExecProvider: &clientcmdapi.ExecConfig{}},
		"AuthProvider":  {AuthProvider: &clientcmdapi.AuthProviderConfig{}},
		"Transport":     {Transport: http.DefaultTransport},
		"WrapTransport": {WrapTransport: func(r http.RoundTripper) http.RoundTripper { return r }},
		"Dial":          {Dial: (&net.Dialer{}).DialContext},
		"Proxy":         {Proxy: http.ProxyFromEnvironment},
	} {
		_, err := credentialsOf(config)
		assert.ErrorContains(t, err, "config."+field+": must not be set: ")
		if field != "WrapTransport" { // has an easier way out
			assert.ErrorContains(t, err, "BELLWETHER_SUPERVISOR=off")
		}
	}
	all := &rest.Config{ExecProvider: &clientcmdapi.ExecConfig{}, Transport: http.DefaultTransport}
	_, _, err = (&Supervisor{page: &page{}}).Client(all).Open(lease.Claim{}, zap.NewNop())
	assert.ErrorContains(t, err, "ExecProvider")
	assert.ErrorContains(t, err, "Transport", "all of them are named")
}

// childOf is a supervisor of this process whose end does not end it.
func childOf(p *page) *Supervisor {
	return &Supervisor{
		page: p, bind: func() error { return nil }, slots: map[types.NamespacedName]*openSlot{},
	}
}

func TestWithoutASupervisorALogSaysWhy(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	config := &rest.Config{ExecProvider: &clientcmdapi.ExecConfig{}}
	ledger, _, err := (&Supervisor{why: "of a reason"}).Client(config).Open(lease.Claim{}, zap.New(core))
	require.NoError(t, err)
	assert.Nil(t, ledger)
	require.Equal(t, 1, logs.Len())
	assert.Equal(t, "of a reason", logs.All()[0].ContextMap()["why"])

	_, _, err = (*Supervisor)(nil).Client(&rest.Config{}).Open(lease.Claim{}, zap.NewNop())
	assert.EqualError(t, err, "supervisor: must come from supervisor.Start (got nil)")
}

func TestLedgerIsWhatTheSupervisorReads(t *testing.T) {
	p := &page{}
	s := childOf(p)
	entry := lease.Claim{
		Lease: types.NamespacedName{Namespace: "ns", Name: "l"}, Process: "mark", Timing: lease.Timing{}.WithDefaults(),
		MinUptime: time.Minute,
	}
	ledger, _, err := s.Client(&rest.Config{Host: "h"}).Open(entry, zap.NewNop())
	require.NoError(t, err)
	assert.Empty(t, p.held(), "there is no term yet")
	ledger.Hold(1, 2, true)
	ledger.Send()
	ledger.Send()
	ledger.Answer(7)
	ledger.Answer(3)
	ledger.Send()
	held := p.held()
	require.Len(t, held, 1)
	assert.Equal(t, lease.Entries{
		Since: 1, Until: 2, Guarded: true, Open: 1, OpenUntil: 7, Work: lease.Work{All: true},
	}, held[0].Entries)
	assert.Equal(t, entry, held[0].Claim)
	assert.Equal(t, "h", held[0].credentials.config().Host)

	entry.Process = "another elector of the same lease"
	_, _, err = s.Client(&rest.Config{Host: "h"}).Open(entry, zap.NewNop())
	require.NoError(t, err)
	assert.Equal(t, int32(1), p.used.Load(), "a lease has one place")
	assert.Equal(t, entry.Process, p.held()[0].Process)
	ledger.Free()
	assert.Empty(t, p.held())
}

func TestWhatAProcessWorkedOnIsKnown(t *testing.T) {
	s := &slot{}
	first, second := s.Begin(1), s.Begin(2)
	again := s.Begin(1)
	assert.Equal(t, lease.Work{Objects: []uint64{1, 2, 1}, All: true}, s.entries().Work)
	first()
	second()
	assert.Equal(t, lease.Work{Objects: []uint64{1}, All: true}, s.entries().Work)
	again()

	var ends []func()
	for object := range uint64(len(s.work) + 2) {
		ends = append(ends, s.Begin(object+1))
	}
	assert.Len(t, s.entries().Work.Objects, len(s.work))
	assert.False(t, s.entries().Work.All, "there are more")
	for _, end := range ends {
		end()
	}
	assert.Equal(t, lease.Work{All: true}, s.entries().Work)
}

// A process that claims one of many names tries more of them than the memory has places for.
func TestPlaceOfAForgottenLeaseIsUsedAgain(t *testing.T) {
	p := &page{}
	s := childOf(p)
	client := s.Client(&rest.Config{})
	open := func(name string) (lease.Ledger, func()) {
		l, forget, err := client.Open(lease.Claim{Lease: types.NamespacedName{Name: name}, Process: name}, zap.NewNop())
		require.NoError(t, err)
		return l, forget
	}
	held, _ := open("held")
	held.Hold(1, 2, true)
	for n := range 2 * len(p.slots) {
		_, forget := open(fmt.Sprint("tried ", n))
		forget()
	}
	assert.Equal(t, int32(2), p.used.Load())

	_, forget := open("held") // by another elector of the same lease
	forget()
	next, _ := open("next")
	next.Hold(3, 4, true)
	assert.Len(t, p.held(), 2, "it is in use")
	_, forget, err := (&Supervisor{why: "of a reason"}).Client(nil).Open(lease.Claim{}, zap.NewNop())
	require.NoError(t, err)
	forget()
}

func TestWhatDoesNotFitIsAnError(t *testing.T) {
	p := &page{}
	s := childOf(p)
	_, _, err := s.Client(&rest.Config{BearerToken: strings.Repeat("x", 1<<15)}).Open(lease.Claim{}, zap.NewNop())
	assert.ErrorContains(t, err, "config: credentials must fit in")
	for n := range len(p.slots) {
		name := types.NamespacedName{Name: strings.Repeat("x", n+1)}
		_, _, _ = s.Client(&rest.Config{}).Open(lease.Claim{Lease: name}, zap.NewNop())
	}
	_, _, err = s.Client(&rest.Config{}).Open(lease.Claim{Lease: types.NamespacedName{Name: "one more"}}, zap.NewNop())
	assert.EqualError(t, err, "supervisor: this process has more than 256 leases")
}

// A process that wrote over its own memory before it died is not believed.
func TestDamagedMemoryReleasesNothing(t *testing.T) {
	p := &page{}
	p.used.Store(3)
	p.slots[0].length.Store(-5)
	p.slots[1].length.Store(5)
	copy(p.slots[1].text[:], "{junk")
	p.slots[2].until.Store(5)
	assert.Empty(t, p.held())
}

func TestStoredVersionIsWhatTheSupervisorReads(t *testing.T) {
	p := &page{}
	s, _ := p.open()
	assert.False(t, s.entries().Stored.Exists(), "there is no version yet")
	l := lease.Record{}.Acquired(types.NamespacedName{Namespace: "ns", Name: "l"}, "a", 15*time.Second,
		metav1.NewMicroTime(time.Unix(1, 0).UTC()))
	l.UID, l.ResourceVersion, l.Labels = "u", "7", map[string]string{"team": "a"}
	lease.SetProcess(l, "mark")
	s.Stored(lease.RecordOf(l))
	read := s.entries().Stored
	require.True(t, read.Exists())
	assert.True(t, read.SameVersion(lease.RecordOf(l)))
	assert.True(t, read.WrittenBy("mark"))
	assert.Equal(t, l.Labels, read.Lease().Labels)

	whole := s.record
	s.record[20]++ // it died while it was writing another one
	assert.False(t, s.entries().Stored.Exists())
	s.record = whole
	require.True(t, s.entries().Stored.Exists())
	s.stored.Store(0)
	assert.False(t, s.entries().Stored.Exists())
	s.stored.Store(1 << 63) // longer than the memory
	assert.False(t, s.entries().Stored.Exists())

	s.Stored(lease.RecordOf(l))
	l.Annotations["example.com/long"] = strings.Repeat("x", len(s.record))
	s.Stored(lease.RecordOf(l))
	assert.False(t, s.entries().Stored.Exists(), "an older version is of no use")
}
