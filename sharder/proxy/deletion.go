package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// deletionOf returns the deletion of the object with this UID, because another one may have its name by now.
func deletionOf(r *http.Request, data []byte, uid string) (*http.Request, error) {
	return withDeleteOptions(r, data, func(o *metav1.DeleteOptions) {
		if o.Preconditions == nil {
			o.Preconditions = &metav1.Preconditions{}
		}
		if o.Preconditions.UID == nil {
			o.Preconditions.UID = (*types.UID)(&uid)
		}
	})
}

// withDeleteOptions returns a deletion with other options. An API server that gets options in the body ignores
// those of the query, so these move there.
func withDeleteOptions(r *http.Request, data []byte, edit func(*metav1.DeleteOptions)) (*http.Request, error) {
	var options metav1.DeleteOptions
	query := r.URL.Query()
	var err error
	if len(data) > 0 {
		err = decodeOptions(r.Header.Get("Content-Type"), data, &options)
	} else {
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&query, &options, nil)
	}
	if err != nil {
		return nil, err
	}
	edit(&options)
	options.TypeMeta = metav1.TypeMeta{} // those of the resource's group and version
	if data, err = json.Marshal(options); err != nil {
		return nil, err
	}
	r = withBody(r, data)
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

func decodeOptions(contentType string, data []byte, options *metav1.DeleteOptions) error {
	switch codecOf(contentType).(type) {
	case protoCodec:
		var envelope runtime.Unknown
		rest, ok := bytes.CutPrefix(data, magic)
		if !ok {
			return errProto
		}
		if err := envelope.Unmarshal(rest); err != nil {
			return err
		}
		return options.Unmarshal(envelope.Raw)
	case cborCodec:
		return direct.Unmarshal(data, options)
	}
	data, err := yaml.ToJSON(data)
	return errors.Join(err, json.Unmarshal(data, options))
}
