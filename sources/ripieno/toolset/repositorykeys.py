"""Settings of a repository that make git run nothing and look nowhere else. Names are in small letters."""

_CORE = (
    *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks"),
    *("autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "compression", "loosecompression", "bigfilethreshold"),
    *("untrackedcache", "preloadindex", "checkstat", "trustctime", "sharedrepository", "sparsecheckout"),
    *("sparsecheckoutcone", "whitespace", "commentchar", "splitindex", "multipackindex", "commitgraph", "longpaths"),
    *("protecthfs", "protectntfs", "checkroundtripencoding", "deltabasecachelimit", "packedgitlimit"),
    # Ours are laid over these.
    *("hookspath", "excludesfile", "editor", "pager", "askpass"),
)
_DIFF = (
    *("algorithm", "renames", "renamelimit", "context", "interhunkcontext", "colormoved", "colormovedws"),
    *("mnemonicprefix", "noprefix", "ignoresubmodules", "indentheuristic", "submodule", "wserrorhighlight"),
    *("relative", "statgraphwidth", "suppressblankempty", "autorefreshindex", "dirstat", "orderfile"),
)

#: Settings that name programs, none of which runs here (measured). What is called are git's own commands, which no
#: alias hides. There is neither a terminal nor an editor, and helpers are asked for passwords of servers only, which no
#: command of a repository reaches.
_SWITCHED_OFF = ("alias.*", "pager.*", "sequence.editor", "credential.*")

#: Patterns in which * stands for any part, that of a name between dots too.
HARMLESS: tuple[str, ...] = (
    *(f"core.{name}" for name in _CORE),
    *(f"diff.{name}" for name in _DIFF),
    *_SWITCHED_OFF,
    *("user.name", "user.email", "user.useconfigonly", "user.signingkey"),
    *("author.name", "author.email", "committer.name", "committer.email"),
    *("remote.pushdefault", "remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.push", "remote.*.tagopt"),
    *("remote.*.prune", "remote.*.mirror", "remote.*.skipfetchall", "remote.*.gh-resolved"),
    *("branch.autosetupmerge", "branch.autosetuprebase", "branch.sort", "branch.*.remote", "branch.*.merge"),
    *("branch.*.rebase", "branch.*.pushremote", "branch.*.description", "branch.*.vscode-merge-base"),
    *("pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "push.followtags", "fetch.prune"),
    *("merge.conflictstyle", "merge.ff", "merge.log", "merge.renames", "merge.renamelimit", "merge.stat"),
    *("merge.autostash", "merge.directoryrenames", "rebase.autosquash", "rebase.autostash", "rebase.updaterefs"),
    *("log.date", "log.decorate", "log.follow", "log.abbrevcommit", "log.mailmap", "status.*", "stash.showpatch"),
    *("stash.showstat", "stash.showincludeuntracked", "index.*", "pack.*", "color.*", "column.*", "advice.*"),
    *("gc.auto", "gc.autodetach", "gc.autopacklimit", "gc.pruneexpire", "gc.writecommitgraph", "i18n.*"),
    *("init.defaultbranch", "rerere.enabled", "rerere.autoupdate", "feature.*", "commit.cleanup", "commit.verbose"),
    *("commit.status", "commit.template", "commit.gpgsign", "tag.gpgsign", "tag.sort", "versionsort.suffix"),
    *("submodule.active", "submodule.recurse", "submodule.*.url", "submodule.*.active", "submodule.*.branch"),
    *("extensions.objectformat", "extensions.refstorage", "extensions.noop", "extensions.worktreeconfig"),
    *("lfs.repositoryformatversion", "receive.denycurrentbranch", "protocol.version", "blame.*", "grep.linenumber"),
)
