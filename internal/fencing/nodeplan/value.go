package nodeplan

import (
	"encoding/json"
	"fmt"
	"io"
)

// Value is the value of a parameter: a text, or its place in a Secret. A text that is a password is
// not printed, logged or encoded, however deeply it is nested.
type Value struct {
	// text is behind a pointer because fmt cannot call methods of values in an unexported field,
	// but does not follow pointers there.
	text   *string
	hidden bool
	secret SecretRef
}

// SecretRef is a key of a Secret in the namespace of the configuration.
type SecretRef struct {
	Name, Key string
}

// Text returns a value that is a text, which is hidden if it is a password.
func Text(text string, hidden bool) Value { return Value{text: &text, hidden: hidden} }

// InSecret returns a value that is in a Secret.
func InSecret(ref SecretRef) Value { return Value{secret: ref} }

// String returns name/key.
func (s SecretRef) String() string { return s.Name + "/" + s.Key }

// Text returns the value, unless it is in a Secret.
func (v Value) Text() (string, bool) {
	if v.text == nil {
		return "", false
	}
	return *v.text, true
}

// Secret returns where the value is, if it is in a Secret.
func (v Value) Secret() (SecretRef, bool) { return v.secret, v.text == nil }

// String returns the text, "secret name/key", or "hidden".
func (v Value) String() string {
	switch {
	case v.text == nil:
		return "secret " + v.secret.String()
	case v.hidden:
		return "hidden"
	default:
		return *v.text
	}
}

// GoString returns [Value.String].
func (v Value) GoString() string { return v.String() }

// Format prints [Value.String], whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }

// MarshalJSON encodes a text as a string, and another value as an object that describes it.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.text == nil:
		return json.Marshal(struct{ Secret SecretRef }{v.secret})
	case v.hidden:
		return json.Marshal(struct{ Hidden bool }{true})
	default:
		return json.Marshal(*v.text)
	}
}
