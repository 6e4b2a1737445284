package cluster

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Explain returns an error's text, with the words of Temporal and gRPC replaced by a
// sentence for people.
func Explain(err error) string {
	text := strings.Replace(err.Error(), "failed reaching server: ", "", 1)
	if e, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok {
		return strings.Replace(text, e.Error(), "the namespace "+e.Namespace+" does not exist there; check --namespace", 1)
	}
	if e, ok := errors.AsType[*serviceerror.PermissionDenied](err); ok {
		return strings.Replace(text, e.Error(), "the server refuses access; check the API key or certificate of your Temporal profile", 1)
	}
	if e, ok := errors.AsType[*serviceerror.Unavailable](err); ok {
		return strings.Replace(text, e.Error(), "the server cannot be reached ("+reason(e.Message)+")", 1)
	}
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	if late || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		text = strings.Replace(text, "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "context deadline exceeded", 1)
		text = strings.Replace(text, "context deadline exceeded", "no answer in time", 1)
	}
	return text
}

// reason returns the part of gRPC's account of a connection that came last, from the
// operating system.
func reason(message string) string {
	if _, after, ok := strings.Cut(message, "desc = "); ok {
		message = after
	}
	if i := strings.LastIndex(message, "dial tcp "); i >= 0 {
		message = message[i+len("dial "):]
	}
	return strings.Trim(message, `"' `)
}
