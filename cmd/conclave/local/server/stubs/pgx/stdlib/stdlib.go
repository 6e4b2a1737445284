// Package stdlib offers PostgreSQL to database/sql. Its connections fail.
package stdlib

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
)

var errUnavailable = errors.New("PostgreSQL is not available in the embedded server: use a Temporal server of your own")

// OptionOpenDB configures a connector.
type OptionOpenDB struct{}

// OptionAfterConnect does nothing.
func OptionAfterConnect(func(context.Context, *pgx.Conn) error) OptionOpenDB { return OptionOpenDB{} }

// GetConnector returns a connector that fails.
func GetConnector(pgx.ConnConfig, ...OptionOpenDB) driver.Connector { return connector{} }

// GetDefaultDriver returns a driver that fails.
func GetDefaultDriver() driver.Driver { return connector{} }

type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return nil, errUnavailable }

func (c connector) Driver() driver.Driver { return c }

func (connector) Open(string) (driver.Conn, error) { return nil, errUnavailable }
