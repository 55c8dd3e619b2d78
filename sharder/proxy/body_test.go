package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBodiesOfUnknownLengthAreBounded(t *testing.T) {
	body := func(size int) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(strings.Repeat("x", size))))
		require.EqualValues(t, -1, r.ContentLength)
		return r
	}
	data, err := readBody(body(maxBody))
	assert.NoError(t, err)
	assert.Len(t, data, maxBody)
	_, err = readBody(body(maxBody + 1))
	assert.ErrorIs(t, err, errTooLarge)
}
