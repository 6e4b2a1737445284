package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/hall"
	"conclave/workflows/drive"
)

// atOnce is the maximum number of workflow IDs in one query.
const atOnce = 50

// search returns the runs of a period that may match the flags' statuses and team. The
// server filters them if the namespace has conclave's search attributes.
func (l *List) search(ctx context.Context, conn *hall.Connection, span time.Duration) ([]Run, error) {
	conditions := l.conditions()
	if conditions == "" {
		return list(ctx, conn, l.Kind, span)
	}
	found, err := query(ctx, conn, l.Kind, since(span)+conditions)
	if _, unknown := errors.AsType[*serviceerror.InvalidArgument](err); unknown {
		if l.team != "" {
			return nil, fmt.Errorf("the namespace has no search attribute %s, by which --team selects: register it with "+
				"`temporal operator search-attribute create --namespace %s --name %[1]s --type Keyword`; it is set in runs that begin after that",
				drive.AttributeTeam, conn.Options.Namespace)
		}
		return list(ctx, conn, l.Kind, span)
	}
	if err != nil {
		return nil, err
	}
	return current(ctx, conn, l.Kind, found)
}

// conditions returns the query conditions for those flags that search attributes cover. Each
// begins with AND. Since protocol 4 a run that ended by itself has an attribute with its final
// status; other runs do not.
func (l *List) conditions() string {
	text := ""
	if l.team != "" {
		text = " AND " + drive.AttributeTeam + " = " + quoted(l.team)
	}
	waiting := func(status string) bool {
		return slices.Contains([]string{drive.Running, drive.Paused, drive.Parked}, status)
	}
	if len(l.statuses) == 0 || slices.ContainsFunc(l.statuses, waiting) {
		return text
	}
	var values []string
	for _, s := range l.statuses {
		values = append(values, quoted(s))
	}
	return text + fmt.Sprintf(" AND (ExecutionStatus != 'Completed' OR %s IS NULL OR %[1]s IN (%s))", drive.AttributeStatus, strings.Join(values, ", "))
}

// quoted quotes a value for a query.
func quoted(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// current replaces each run by the newest execution of its workflow, because a query may
// select a failed execution whose session was continued by another.
func current(ctx context.Context, conn *hall.Connection, kind *Kind, found []Run) ([]Run, error) {
	var all []Run
	for batch := range slices.Chunk(found, atOnce) {
		var ids []string
		for _, r := range batch {
			ids = append(ids, quoted(r.Workflow))
		}
		runs, err := query(ctx, conn, kind, " AND WorkflowId IN ("+strings.Join(ids, ", ")+")")
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}
