package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
)

// bills holds the costs of ended sessions, which change only if a session is retried.
type bills struct {
	mu    *sync.Mutex
	ended map[string]llm.Usage // usage of ended sessions, by session
}

// billed is the record of a session that counts against the budget of its caller.
type billed struct {
	Session string `json:"session"`
}

// retried is the folder, within a caller's day, for retried sessions.
const retried = "retried/"

// ChargeRetry records a session that the caller is about to retry, or refuses it if today's budget is spent.
func (d *Desk) ChargeRetry(ctx context.Context, by access.Caller, session string) error {
	return d.chargeSession(ctx, by, session, retried)
}

// chargeSession records a session in a folder of the caller's day (UTC), or refuses it if the sessions of the
// day have spent the budget.
func (d *Desk) chargeSession(ctx context.Context, by access.Caller, session, folder string) error {
	if by.USDPerDay == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	day := "callers/spending/" + by.Name + "/" + time.Now().UTC().Format(time.DateOnly) + "/"
	spent, err := d.spentToday(ctx, by, day)
	if err != nil {
		return err
	}
	if spent >= by.USDPerDay {
		return &Refusal{Status: http.StatusTooManyRequests, Code: "insufficient_quota", Message: fmt.Sprintf(
			"%s has spent %s of %s for today (UTC)", by.Name, llm.FormatUSD(spent, 4), llm.FormatUSD(by.USDPerDay, 2))}
	}
	err = artifact.CreateJSON(ctx, d.conn.Store, day+folder+session+".json", billed{Session: session})
	if err != nil && !errors.Is(err, artifact.ErrExists) {
		return unavailableRefusal("record the session for the budget of "+by.Name, err)
	}
	return nil
}

// spentToday returns the dollars spent by the sessions recorded for a caller's day. A session recorded
// twice counts once.
func (d *Desk) spentToday(ctx context.Context, by access.Caller, day string) (float64, error) {
	costs := map[string]float64{}
	for key, err := range d.conn.Store.List(ctx, day) {
		session := strings.TrimSuffix(path.Base(key), ".json")
		var cost llm.Usage
		if err == nil {
			cost, err = d.costOf(ctx, session, strings.HasPrefix(key, day+retried))
		}
		if err != nil {
			return 0, unavailableRefusal("read the spending of "+by.Name, err)
		}
		if cost.ModelCalls > 0 && cost.TotalUSD == nil {
			return 0, &Refusal{Status: http.StatusForbidden, Code: "price_unknown", Message: fmt.Sprintf(
				"the cost of session %s is unknown, so that the %s of %s for a day cannot be kept: its models need price_per_million, or the key no dollars", session, llm.FormatUSD(by.USDPerDay, 2), by.Name)}
		}
		costs[session] = max(costs[session], cost.AtLeastUSD())
	}
	total := 0.0
	for _, cost := range costs {
		total += cost
	}
	return total, nil
}

// costOf returns the cost of a session so far. The cached cost of a retried session may be out
// of date, so it is read again.
func (d *Desk) costOf(ctx context.Context, session string, retried bool) (llm.Usage, error) {
	d.bills.mu.Lock()
	cost, known := d.bills.ended[session]
	d.bills.mu.Unlock()
	if known && !retried {
		return cost, nil
	}
	run, err := d.describeSession(ctx, session)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return llm.Usage{}, nil // it was refused before it started
	}
	if err != nil {
		return llm.Usage{}, err
	}
	if run.Running() {
		var state struct{ Cost llm.Usage } // the other fields of a state are not those of a result
		err := runs.Query(ctx, d.conn, session, workflows.StateQuery, &state)
		return state.Cost, err
	}
	result, err := runs.Await(ctx, d.conn, run, endedResult)
	if err != nil {
		return llm.Usage{}, err
	}
	d.bills.mu.Lock()
	defer d.bills.mu.Unlock()
	d.bills.ended[session] = result.Cost
	return result.Cost, nil
}
