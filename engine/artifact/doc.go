// Package artifact keeps what a session leaves behind: the documents of its
// directory, the files of its answers, and the records that decide which action
// a step took.
//
// Start with Store, the port to the storage behind it, and Layout, which builds
// every key. The documents are plain structs, read and written with ReadJSON,
// PutJSON and CreateJSON.
//
// # Keys
//
// A key is the portable subset of what object stores and file systems accept;
// CheckKey is its rule. Names that come from a workspace may hold any byte:
// EscapePath turns them into keys and UnescapePath back, one to one. Dir stores
// objects under their unescaped names, so that a directory shows the files as
// they were called, and a bucket of any make can hold them.
//
// # Writing once
//
// Create is the only conditional write. A claim, a commit, a ledger entry and a
// journal entry are created; everything else is either content under its own
// hash, which can be written again without changing anything, or a projection,
// which can be made again from a commit.
//
// # Workspaces
//
// Snapshot stores the regular files of a directory as blobs and describes them
// in a Manifest, itself a blob whose hash goes into the commit. Project copies
// the blobs to the readable place beside the answer, Restore writes them to a
// directory, Verify compares. A manifest is never trusted: Restore checks every
// path and every hash, and works through os.Root.
//
// Empty directories, the modes of directories, setuid, setgid and sticky bits,
// times and owners are not kept. Symbolic links are kept in
// the manifest if they stay inside the workspace.
//
// This package is not the step engine: it decides nothing about claims and
// commits, it only makes them durable. It knows no model, no team and no
// Temporal. The S3 store is activities/s3store; artifact/storetest holds both
// stores to the same behaviour.
package artifact
