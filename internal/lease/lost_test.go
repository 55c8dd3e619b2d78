package lease

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestALossIsOneLine(t *testing.T) {
	t.Parallel()
	failing := errors.Join(errors.New("update Lease ns/l: no route"), errors.New("get Lease ns/l: no route"))
	const renewed = `last renewed at 2026-01-02T03:04:05Z, 12s ago`
	for want, err := range map[string]error{
		`lease ns/l lost by "a": not renewed in time: update Lease ns/l: no route; get Lease ns/l: no route ` +
			`(last known holder "a"; ` + renewed + `)`: fmt.Errorf("%w: %w", ErrDeadline, failing),
		`lease ns/l is not lost yet by "a": not renewed for so long that the work has to end before the deadline: ` +
			`update Lease ns/l: no route; get Lease ns/l: no route ` +
			`(` + renewed + `)`: fmt.Errorf("%w: %w", ErrSteppedDown, failing),
		`lease ns/l lost by "a": not renewed in time: not renewed for so long that the work has to end before the ` +
			`deadline (last known holder "a"; ` + renewed + `)`: fmt.Errorf("%w: %w", ErrDeadline, ErrSteppedDown),
		`lease ns/l is not released: some of the work may still run: one; two`: fmt.Errorf("%w: %w", ErrUnfinished,
			errors.New("one\ntwo")),
	} {
		loss := &LostError{
			Lease: types.NamespacedName{Namespace: "ns", Name: "l"}, Identity: "a", Holder: "a",
			RenewedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Age: 12 * time.Second, Err: err,
		}
		assert.EqualError(t, loss, want)
	}
}

func TestLossOfADeletedLeaseNamesNoHolder(t *testing.T) {
	t.Parallel()
	loss := &LostError{Lease: types.NamespacedName{Namespace: "ns", Name: "l"}, Identity: "a", Err: ErrTaken}
	assert.ErrorContains(t, loss, `lost by "a": the record is not ours any more (no holder is known; last renewed`)
}
