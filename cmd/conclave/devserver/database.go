package devserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	databasePrefix = "temporal-"
	databaseSuffix = ".db"
	// retention is how long a closed workflow's history is kept. Artifacts are
	// not subject to it.
	retention = 30 * 24 * time.Hour
	// clusterName is part of what a database was made for and never changes.
	clusterName = "active"
)

// openDatabase returns how to reach the database, made anew if there is none.
//
// Temporal cannot upgrade an SQLite file in place, so the file's name carries
// the server version, and a directory with a file of another version is
// refused rather than begun again beside it: sessions must not just vanish.
func (d directory) openDatabase() (*config.SQL, error) {
	name := databasePrefix + headers.ServerVersion + databaseSuffix
	others, err := filepath.Glob(filepath.Join(escapeGlob(string(d)), databasePrefix+"*"+databaseSuffix))
	if err != nil {
		return nil, fmt.Errorf("look for databases: %w", err)
	}
	file := filepath.Join(string(d), name)
	_, err = os.Stat(file)
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open the database: %w", err)
	case len(others) > 0:
		return nil, wrongVersion(others[0])
	default:
		if err := createDatabase(file); err != nil {
			return nil, fmt.Errorf("make the database %s: %w", file, err)
		}
	}
	database := connect(file, map[string]string{
		// Readers and the writer do not wait for each other, and a commit does
		// not wait for the disk: a crash of the process loses nothing, a crash
		// of the machine at most the last moments, which the artifacts repeat.
		"journal_mode": "wal",
		"synchronous":  "normal",
		"busy_timeout": "10000",
	})
	if err := registerNamespace(database); err != nil {
		return nil, fmt.Errorf("open the database %s: %w", file, err)
	}
	return database, nil
}

// wrongVersion says what can be done about a database of another version.
func wrongVersion(file string) error {
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), databasePrefix), databaseSuffix)
	return fmt.Errorf("open the database %s: it was written by Temporal server %s, this program embeds %s and cannot convert it; "+
		"use the program that wrote it, choose another --data-dir, or move the file away (this forgets the workflows, the artifacts stay)",
		file, version, headers.ServerVersion)
}

// createDatabase writes a database with the schema. It gets its name only when
// it is complete, so that a crash leaves no half of one behind.
func createDatabase(file string) error {
	next := file + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sqliteschema.SetupSchema(connect(next, map[string]string{"journal_mode": "memory", "synchronous": "off"})); err != nil {
		return err
	}
	if err := syncPath(next); err != nil {
		return err
	}
	if err := os.Rename(next, file); err != nil {
		return err
	}
	return syncPath(filepath.Dir(file))
}

// connect describes a connection. SQLite reads the name as a URI's path, the
// attributes as pragmas.
func connect(file string, attributes map[string]string) *config.SQL {
	attributes["mode"] = "rwc"
	return &config.SQL{
		PluginName:        sqlite.PluginName,
		DatabaseName:      (&url.URL{Path: file}).EscapedPath(),
		ConnectAttributes: attributes,
	}
}

// registerNamespace adds the namespace unless it is there.
func registerNamespace(database *config.SQL) error {
	namespace, err := sqliteschema.NewNamespaceConfig(clusterName, namespaceName, false, nil)
	if err != nil {
		return err
	}
	namespace.Detail.Config.Retention = durationpb.New(retention)
	return sqliteschema.CreateNamespaces(database, namespace)
}

// escapeGlob makes a path match only itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// syncPath makes a file's content, or a directory's entries, survive a loss of
// power.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
