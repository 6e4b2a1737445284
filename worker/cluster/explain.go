package cluster

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Explain is an error as a sentence: what Temporal and gRPC say in their own
// words is put in ours, everything else is as it was made.
func Explain(err error) string {
	var (
		noNamespace *serviceerror.NamespaceNotFound
		denied      *serviceerror.PermissionDenied
		unavailable *serviceerror.Unavailable
		late        *serviceerror.DeadlineExceeded
	)
	text := strings.Replace(err.Error(), "failed reaching server: ", "", 1)
	switch {
	case errors.As(err, &noNamespace):
		return replaceCause(text, noNamespace, "the namespace "+noNamespace.Namespace+" does not exist there; check --namespace")
	case errors.As(err, &denied):
		return replaceCause(text, denied, "the server refuses access; check the API key or certificate of your Temporal profile")
	case errors.As(err, &unavailable):
		return replaceCause(text, unavailable, "the server cannot be reached ("+reason(unavailable.Message)+")")
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return shortenDeadline(text)
	}
	return text
}

// replaceCause puts a sentence where the cause stood in the message.
func replaceCause(text string, cause error, sentence string) string {
	return strings.Replace(text, cause.Error(), sentence, 1)
}

// reason is the part of gRPC's account of a connection that means something:
// what the operating system said last.
func reason(message string) string {
	if _, after, ok := strings.Cut(message, "desc = "); ok {
		message = after
	}
	if i := strings.LastIndex(message, "dial tcp "); i >= 0 {
		message = message[i+len("dial "):]
	}
	return strings.Trim(message, `"' `)
}

func shortenDeadline(text string) string {
	for _, words := range []string{
		"rpc error: code = DeadlineExceeded desc = context deadline exceeded",
		"context deadline exceeded",
	} {
		if strings.Contains(text, words) {
			return strings.Replace(text, words, "no answer in time", 1)
		}
	}
	return text
}
