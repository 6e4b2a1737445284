package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/cli"
	"conclave/engine/text"
	"conclave/workflows"
)

// atOnce is the maximum number of workflow IDs in one query.
const atOnce = 50

// searchPeriod returns the runs of a period that may match the flags' statuses and team. The
// server filters them if the namespace has conclave's search attributes.
func (l *List) searchPeriod(ctx context.Context, conn *cli.Connection, span time.Duration) ([]Run, error) {
	conditions := l.queryConditions()
	if conditions == "" {
		return listRuns(ctx, conn, l.Kind, span)
	}
	found, err := queryRuns(ctx, conn, l.Kind, startedWithin(span)+conditions)
	if _, unknown := errors.AsType[*serviceerror.InvalidArgument](err); unknown {
		if l.team != "" {
			return nil, fmt.Errorf("the namespace has no search attribute %s, by which --team selects: register it with "+
				"`temporal operator search-attribute create --namespace %s --name %[1]s --type Keyword`; it is set in runs that begin after that",
				workflows.AttributeTeam, conn.Options.Namespace)
		}
		return listRuns(ctx, conn, l.Kind, span)
	}
	if err != nil {
		return nil, err
	}
	return newestExecutions(ctx, conn, l.Kind, found)
}

// queryConditions returns the query conditions for those flags that search attributes cover. Each begins with
// AND. Since protocol 4 a run that ended by itself has an attribute with its final status; other runs do not.
func (l *List) queryConditions() string {
	team := ""
	if l.team != "" {
		team = " AND " + workflows.AttributeTeam + " = " + quoteValue(l.team)
	}
	waiting := func(status string) bool {
		return slices.Contains([]string{workflows.Running, workflows.Paused, workflows.Parked, workflows.Waiting}, status)
	}
	if len(l.statuses) == 0 || slices.ContainsFunc(l.statuses, waiting) {
		return team
	}
	values := text.Each(l.statuses, quoteValue)
	return team + fmt.Sprintf(" AND (ExecutionStatus != 'Completed' OR %s IS NULL OR %[1]s IN (%s))", workflows.AttributeStatus, strings.Join(values, ", "))
}

func quoteValue(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// newestExecutions replaces each run by the newest execution of its workflow, because a query may
// select a failed execution whose session was continued by another.
func newestExecutions(ctx context.Context, conn *cli.Connection, kind *Kind, found []Run) ([]Run, error) {
	var all []Run
	for batch := range slices.Chunk(found, atOnce) {
		ids := text.Each(batch, func(r Run) string { return quoteValue(r.Workflow) })
		runs, err := queryRuns(ctx, conn, kind, " AND WorkflowId IN ("+strings.Join(ids, ", ")+")")
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}
