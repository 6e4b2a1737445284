package runs

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/cli"
)

// searched is a server that answers queries with workflow IDs, the newest run first.
type searched struct {
	client.Client
	answers map[string][]string // by a part of the query
	err     error               // of queries for attributes
	asked   []string
}

func (s *searched) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.asked = append(s.asked, r.Query)
	if s.err != nil && strings.Contains(r.Query, "Conclave") {
		return nil, s.err
	}
	response := &workflowservice.ListWorkflowExecutionsResponse{}
	for part, ids := range s.answers {
		if !strings.Contains(r.Query, part) {
			continue
		}
		for i, id := range ids {
			response.Executions = append(response.Executions, &workflowpb.WorkflowExecutionInfo{
				Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
				StartTime: &timestamppb.Timestamp{Seconds: int64(1000 - i)},
			})
		}
	}
	return response, nil
}

func TestSearch_conditions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		list List
		want string
	}{
		"all":                    {List{}, ""},
		"the running ones":       {List{statuses: []string{"failed", "running"}}, ""},
		"those that ended":       {List{statuses: []string{"failed", "limit"}}, " AND (ExecutionStatus != 'Completed' OR ConclaveStatus IS NULL OR ConclaveStatus IN ('failed', 'limit'))"},
		"those of a team":        {List{team: "it's"}, " AND ConclaveTeam = 'it''s'"},
		"running ones of a team": {List{team: "a", statuses: []string{"paused"}}, " AND ConclaveTeam = 'a'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.list.queryConditions())
		})
	}
}

// A session that failed and was taken up again is found by its newest run.
func TestSearch_asksForTheNewestRuns(t *testing.T) {
	t.Parallel()
	server := &searched{answers: map[string][]string{"ConclaveStatus IN": {"s1", "s2"}, "WorkflowId IN ('s1', 's2')": {"s2", "s1"}}}
	l := List{Kind: session, statuses: []string{"failed"}}
	found, err := l.searchPeriod(t.Context(), &cli.Connection{Client: server}, 0)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "s2", found[0].Workflow)
	require.Len(t, server.asked, 2)
}

// A namespace without search attributes is listed whole; only --team needs one.
func TestSearch_withoutAttributes(t *testing.T) {
	t.Parallel()
	server := &searched{answers: map[string][]string{"WorkflowType": {"s1"}}, err: serviceerror.NewInvalidArgument("invalid query")}
	conn := &cli.Connection{Client: server}
	conn.Options.Namespace = "prod"
	found, err := (&List{Kind: session, statuses: []string{"failed"}}).searchPeriod(t.Context(), conn, 0)
	require.NoError(t, err)
	require.Len(t, found, 1)
	_, err = (&List{Kind: session, team: "a"}).searchPeriod(t.Context(), conn, 0)
	require.ErrorContains(t, err, "the namespace has no search attribute ConclaveTeam")
	require.ErrorContains(t, err, "temporal operator search-attribute create --namespace prod --name ConclaveTeam --type Keyword")
}
