package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"conclave/worker/cluster"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"list: the namespace x does not exist there; check --namespace": fmt.Errorf("list: %w", serviceerror.NewNamespaceNotFound("x")),
		"connect: no answer in time; check":                             fmt.Errorf("connect: failed reaching server: %w; check", context.DeadlineExceeded),
		"connect: the server cannot be reached (tcp 127.0.0.1:1: connect: connection refused)": fmt.Errorf("connect: %w",
			serviceerror.NewUnavailable(`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`)),
		"as it was made": errors.New("as it was made"),
	} {
		require.Equal(t, want, cluster.Explain(err))
	}
}
