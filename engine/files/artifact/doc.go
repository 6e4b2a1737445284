// Package artifact stores a session: the documents of its directory, the files of its answers, and the claims
// and commits that decide which action a step took.
//
// Start with Store, the port to the storage, and Layout, which builds every key. The documents are plain
// structs, read and written with ReadJSON, PutJSON and CreateJSON.
//
// # Keys
//
// A key uses the portable subset of the names that object stores and file systems accept; CheckKey is the
// rule. File names from a workspace may hold any byte: EscapePath turns them into keys, one to one. Dir
// stores objects under their unescaped names, so that a directory shows the original file names.
//
// # Writing once
//
// Create is the only conditional write. Claims, commits, ledger entries and journal entries are created.
// Everything else is content under its own hash, which can be written again without a change, or a derived
// document, which can be written again from a commit.
//
// # Workspaces
//
// A WorkingCopy stores the regular files of a directory as blobs and describes them in a Manifest, itself a
// blob whose hash goes into the commit. Project copies the blobs to the readable place beside the answer;
// Restore writes them to a directory. Manifests are not trusted: Restore checks every path and every hash,
// and works through os.Root.
//
// Empty directories, the modes of directories, setuid, setgid and sticky bits, times and owners are not kept.
// Symbolic links are kept in the manifest if they stay inside the workspace.
//
// The S3 store is activities/s3store; engine/files/storetest holds both stores to the same behaviour.
package artifact
