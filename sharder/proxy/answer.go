package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is a Status that the proxy itself gives.
func answer(w http.ResponseWriter, status metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func failure(code int, reason metav1.StatusReason, q request, format string, arguments ...any) metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "bellwether: " + fmt.Sprintf(format, arguments...),
		Details: &metav1.StatusDetails{Name: q.name, Group: q.resource.Group, Kind: q.resource.Resource},
	}
}
