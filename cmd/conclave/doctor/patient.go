package doctor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/worker/cluster"
)

// reachTimeout is the maximum duration of one request to Temporal.
const reachTimeout = 8 * time.Second

// patient is the installation to check.
type patient struct {
	cli   *hall.CLI
	own   Versions
	flags flags

	conn      *hall.Connection // nil if neither Temporal nor the store could be opened
	refused   error            // the failed connection to Temporal
	storeless error            // the failure to open the store
}

// open connects to Temporal and the store. It fails only for invalid flags or environment
// variables.
func open(ctx context.Context, c *hall.CLI, v Versions, f flags) (*patient, error) {
	p := &patient{cli: c, own: v, flags: f}
	t, err := c.Target()
	if err != nil {
		return nil, err
	}
	c.Infof("connecting %s", t)
	p.conn, p.refused = c.Connect(ctx, t, slog.New(slog.DiscardHandler))
	if p.refused == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !t.Cluster {
		p.storeless = errors.New("the local stack does not run")
		return p, nil
	}
	if c.Bucket == "" && c.Prefix != "" {
		return nil, p.refused
	}
	if c.Bucket != "" {
		p.conn, p.storeless = c.ConnectStore(ctx)
	}
	if p.storeless != nil { // the reason why Connect failed
		storeless := *c
		storeless.Bucket, storeless.Prefix = "", ""
		p.conn, p.refused = storeless.Connect(ctx, t, slog.New(slog.DiscardHandler))
	}
	return p, nil
}

func (p *patient) close() {
	if p.conn != nil {
		p.conn.Close()
	}
}

func good(detail string) check { return check{OK: true, Detail: detail} }

func bad(detail, remedy string) check { return check{Detail: detail, Remedy: remedy} }

// failed converts an error to a check. Errors end with their remedy, after the last semicolon; the
// given remedy is for errors without one.
func failed(err error, remedy string) check {
	if untrusted, ok := errors.AsType[*team.UntrustedError](err); ok { // its semicolons may come from a foreign file
		return bad(untrusted.Reason(), untrusted.Remedy())
	}
	said := cluster.Explain(err)
	if i := strings.LastIndex(said, "; "); i >= 0 {
		return bad(said[:i], said[i+len("; "):])
	}
	return bad(said, remedy)
}
