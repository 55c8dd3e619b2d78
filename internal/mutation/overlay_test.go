package mutation

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCodeIsFoundHoweverItsLinesAreBroken(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"\tif a.b(c, \"d e\") && !f {\n\t\treturn nil, err",
		"if a.b(\n\tc,\n\t\"d e\",\n) &&\n\t!f { return nil,\n err",
	} {
		p := pattern(code)
		assert.Regexp(t, p, "x\n\tif a.b(c, \"d e\") && !f {\n\t\treturn nil, err\n}")
		assert.Regexp(t, p, "if a.b(c,\n\t\t\"d e\") &&\n\t\t!f {\n\treturn nil, err")
		assert.NotRegexp(t, p, "if a.b(c, \"d  e\") && !f {\n\t\treturn nil, err", "another text")
		assert.NotRegexp(t, p, "if a.b(c, \"d e\") && f {\n\t\treturn nil, err", "another condition")
		assert.NotRegexp(t, p, "if a.b(c, \"d e\") && !f {\n\t\treturnnil, err", "another word")
	}
}
