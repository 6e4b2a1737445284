package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"google.golang.org/grpc"

	"conclave/workflows"
)

// operated is a server with search attributes.
type operated struct {
	client.Client
	operatorservice.OperatorServiceClient
	has   map[string]enumspb.IndexedValueType
	err   error
	asked int
}

func (o *operated) OperatorService() operatorservice.OperatorServiceClient { return o }

func (o *operated) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	o.asked++
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.has}, o.err
}

func TestAttributes_thoseOfTheNamespace(t *testing.T) {
	t.Parallel()
	all := slices.Sorted(maps.Keys(workflows.Attributes()))
	for name, tc := range map[string]struct {
		has  map[string]enumspb.IndexedValueType
		err  error
		want []string
	}{
		"all":                 {workflows.Attributes(), nil, all},
		"none":                {nil, nil, nil},
		"one of another type": {map[string]enumspb.IndexedValueType{workflows.AttributeStatus: enumspb.INDEXED_VALUE_TYPE_TEXT, workflows.AttributeTeam: enumspb.INDEXED_VALUE_TYPE_KEYWORD}, nil, []string{workflows.AttributeTeam}},
		"no answer":           {nil, errors.New("permission denied"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &operated{has: tc.has, err: tc.err}
			known := &attributes{client: server, log: slog.New(slog.DiscardHandler), known: map[string]registered{}}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			ask := func(ctx context.Context) ([]string, error) { return known.registeredNames(ctx), nil }
			env.RegisterActivity(ask)
			for range 2 {
				value, err := env.ExecuteActivity(ask)
				require.NoError(t, err)
				var got []string
				require.NoError(t, value.Get(&got))
				require.ElementsMatch(t, tc.want, got)
			}
			require.Equal(t, 1, server.asked, "the answer is remembered")
		})
	}
}

// The warning has the command that registers what is missing.
func TestCreateCommand(t *testing.T) {
	t.Parallel()
	require.Equal(t, "temporal operator search-attribute create --namespace prod --name ConclaveCostUsd --type Double"+
		" --name ConclaveTeam --type Keyword --name ConclaveWinner --type Keyword",
		createCommand("prod", []string{workflows.AttributeStatus, workflows.AttributeKind}))
}
