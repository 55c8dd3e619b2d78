package referee

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestVerdictOnLives(t *testing.T) {
	l := NewLives()
	begin := func(pod, at string) { l.Note(pod, `{"ts":`+at+`,"msg":"working"}`) }
	begin("a", "1")
	l.Note("a", `{"ts":1.5,"msg":"waiting"}`)
	l.Ended("a", time.Unix(2, 0))
	begin("b", "2.5")
	l.Ended("b", time.Unix(4, 0))
	overlap, n := l.Verdict()
	assert.Empty(t, overlap)
	assert.Equal(t, 2, n)
	assert.Len(t, l.Begun, 2)

	begin("c", "3.9")
	l.Ended("c", time.Unix(5, 0))
	overlap, _ = l.Verdict()
	assert.Contains(t, overlap, "b worked until")
}
