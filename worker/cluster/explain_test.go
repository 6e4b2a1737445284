package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"conclave/worker/cluster"
)

// decode returns the error of a client without a key that reads an encrypted payload.
func decode() error {
	encrypted := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/encrypted")}}
	var text string
	return converter.GetDefaultDataConverter().FromPayloads(&commonpb.Payloads{Payloads: []*commonpb.Payload{encrypted}}, &text)
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"list: the namespace x does not exist there; check --namespace": fmt.Errorf("list: %w", serviceerror.NewNamespaceNotFound("x")),
		"connect: no answer in time; check":                             fmt.Errorf("connect: failed reaching server: %w; check", context.DeadlineExceeded),
		"connect: the server cannot be reached (tcp 127.0.0.1:1: connect: connection refused)": fmt.Errorf("connect: %w",
			serviceerror.NewUnavailable(`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`)),
		"wait for session s1: the payloads are encrypted; set CONCLAVE_PAYLOAD_KEY as on the workers": fmt.Errorf("wait for session s1: %w", decode()),
		"as it was made": errors.New("as it was made"),
	} {
		require.Equal(t, want, cluster.Explain(err))
	}
}
