-- A store as format 2 wrote it: what the tests on tampering play. Never changed, only read.
BEGIN TRANSACTION;
CREATE TABLE api_keys (
    id         TEXT    PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    workspace  TEXT    NOT NULL,
    roles      TEXT    NOT NULL,
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL
, name TEXT, queues TEXT, expires_at INTEGER, revoked_at INTEGER, previous BLOB CHECK (previous IS NULL OR length(previous) = 32), previous_until INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE attempts (
    task       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL CHECK (attempt >= 1),
    lease      BLOB    NOT NULL CHECK (length(lease) = 16),
    fence      INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    started_at INTEGER,
    closed_at  INTEGER NOT NULL,
    outcome    TEXT    NOT NULL CHECK (outcome IN
        ('SUCCEEDED', 'FAILED', 'CANCELLED', 'LOST', 'UNDELIVERED', 'REVOKED')),
    reason     TEXT,
    report     BLOB    CHECK (report IS NULL OR length(report) = 32),
    fault      TEXT,
    claims     TEXT,
    PRIMARY KEY (task, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempts" VALUES(1,1,X'00000000000000000000000000000100',4294967297,'worker',1700000000000,1700000000000,1700000010000,'SUCCEEDED',NULL,X'A9F01F545B903EACE76CF492A0E31DB6B3196D5822BA3433ACD7A84E2468B4C6',NULL,'{"metrics":"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"}');
INSERT INTO "attempts" VALUES(2,1,X'00000000000000000000000000000200',4294967297,'worker',1700000010000,1700000010000,1700000010000,'FAILED',NULL,X'FC41F8508D5D14245337D9FA89E79A85BF4F780F5B20FA7F14E7D846902127A9','{"category":"USER_CODE","message":"no","stack_trace":"at line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\n"}','{"metrics":"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"}');
INSERT INTO "attempts" VALUES(2,2,X'00000000000000000000000000000300',4294967299,'worker',1700000610000,1700000610000,1700000610000,'FAILED','ATTEMPTS_EXHAUSTED',X'FC41F8508D5D14245337D9FA89E79A85BF4F780F5B20FA7F14E7D846902127A9','{"category":"USER_CODE","message":"no","stack_trace":"at line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\n"}','{"metrics":"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"}');
INSERT INTO "attempts" VALUES(3,1,X'00000000000000000000000000000400',4294967297,'worker',1700001210000,NULL,1700001210000,'REVOKED','CANCEL_FORCED',NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(4,1,X'00000000000000000000000000000500',4294967297,'worker',1700001210000,1700001210000,1700001210000,'CANCELLED','CANCEL_REQUESTED',X'D53BA2618C11963C9099141ED9EEE7511A1689435B3EA6A72256DCE3AF99491B',NULL,'{"metrics":"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"}');
INSERT INTO "attempts" VALUES(5,1,X'00000000000000000000000000000600',4294967297,'worker',1700001210000,NULL,1700001810000,'LOST','HEARTBEAT_TIMEOUT',NULL,NULL,NULL);
CREATE TABLE audit (
    n         INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    tenant    TEXT    NOT NULL,
    workspace TEXT    NOT NULL,
    actor     TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    object    TEXT    NOT NULL,
    code      TEXT,
    times     INTEGER NOT NULL CHECK (times >= 1),
    before    BLOB    CHECK (before IS NULL OR length(before) = 32),
    after     BLOB    CHECK (after IS NULL OR length(after) = 32),
    request   TEXT
) STRICT;
CREATE TABLE done (
    row           INTEGER PRIMARY KEY,
    state         TEXT    NOT NULL CHECK (state IN ('succeeded', 'failed', 'halted', 'cancelled')),
    reason        TEXT,
    started_at    INTEGER,
    completed_at  INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    claim_version INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    record        BLOB    NOT NULL CHECK (length(record) = 32),
    cancel        TEXT,
    fault         TEXT,
    output        TEXT
) STRICT;
INSERT INTO "done" VALUES(1,'succeeded',NULL,1700000000000,1700000010000,1,0,0,3,4,X'89095974C6FA80DF768757C35838FA81B4541DA36CFB79B49F176F7EF0750157',NULL,NULL,'"oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo"');
INSERT INTO "done" VALUES(2,'failed','ATTEMPTS_EXHAUSTED',1700000010000,1700000610000,2,2,0,4,5,X'080840CF949D821D6734BC77FCCB05E17183AF0B7403BB5B1D724D290E4C2CC9',NULL,'{"category":"USER_CODE","message":"no","stack_trace":"at line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\nat line 1\n"}',NULL);
INSERT INTO "done" VALUES(3,'cancelled','CANCEL_FORCED',NULL,1700001210000,1,0,0,2,3,X'2B78C8E17732C3765525709813F0A1DD14C8C3CD047637D6C2BAAC8626342F4D','{"requested_at":1700001210000,"reason":"enough"}',NULL,NULL);
INSERT INTO "done" VALUES(4,'cancelled','CANCEL_REQUESTED',1700001210000,1700001210000,1,0,0,3,6,X'A7837E6B75A542AFAF5E923113CB7BD71558842D851A052231744F1E0E422E7D','{"requested_at":1700001210000,"reason":"enough","signalled_at":1700001210000}',NULL,NULL);
CREATE TABLE history (
    task    INTEGER NOT NULL,
    n       INTEGER NOT NULL CHECK (n >= 1),
    at      INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    rules   INTEGER NOT NULL,
    request TEXT    NOT NULL,
    loaded  TEXT,
    events  TEXT    NOT NULL,
    PRIMARY KEY (task, n)
) STRICT, WITHOUT ROWID;
INSERT INTO "history" VALUES(1,1,1700000000000,1,1,'{"submit":{"id":"task_00000000000000000000000001","scope":{"tenant":"default","workspace":"default"},"kind":"resize","queue":"images","priority":0,"policy":{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000},"input":"9ec514144002965da24b90bc984281b3d5951858a77a52e2010d7b4c10f2df45","fingerprint":"a1925fa881cab79e050d45fe36d899ee77ceddf7a1982102df3d890b9d031445"}}',NULL,'[{"submitted_as_asked":{"due":1700000000000}}]');
INSERT INTO "history" VALUES(1,2,1700000000000,1,1,'{"grant":{"lease":"lease_00000000000000000000000080","owner":"worker","poll":"poll"}}','{"claim_version":0,"revision":1,"decided_at":1700000000000,"heard":false}','[{"granted_as_asked":{"fence":4294967297,"expires_at":1700000090000}}]');
INSERT INTO "history" VALUES(1,3,1700000000000,1,1,'{"started":{"caller":{"worker":"worker","attempt":1,"lease":"lease_00000000000000000000000080","epoch":1}}}','{"claim_version":1,"revision":2,"decided_at":1700000000000,"heartbeat_at":1700000000000,"expires_at":1700000090000,"heard":false}','["started"]');
INSERT INTO "history" VALUES(1,4,1700000010000,1,1,'{"report":{"caller":{"worker":"worker","attempt":1,"lease":"lease_00000000000000000000000080","epoch":1},"outcome":{"succeeded":{"output":"{\"sha256\":\"2abea53d59a96381e4eb55ccd93ef6dfd29f243599b8166ee89402198201b3a8\"}"}},"digest":"a9f01f545b903eace76cf492a0e31db6b3196d5822ba3433acd7a84e2468b4c6","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"}}','{"claim_version":2,"revision":4,"decided_at":1700000010000,"heartbeat_at":1700000010000,"expires_at":1700000100000,"heard":true}','[{"succeeded_as_asked":{"fence":4294967297,"granted_at":1700000000000,"started_at":1700000000000,"closed_at":1700000010000}}]');
INSERT INTO "history" VALUES(2,1,1700000010000,1,1,'{"submit":{"id":"task_00000000000000000000000002","scope":{"tenant":"default","workspace":"default"},"kind":"resize","queue":"images","priority":0,"policy":{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":2,"lost_max":3,"retry_base":5000,"retry_cap":300000},"input":"9ec514144002965da24b90bc984281b3d5951858a77a52e2010d7b4c10f2df45","fingerprint":"a1925fa881cab79e050d45fe36d899ee77ceddf7a1982102df3d890b9d031445"}}',NULL,'[{"submitted_as_asked":{"due":1700000010000}}]');
INSERT INTO "history" VALUES(2,2,1700000010000,1,1,'{"grant":{"lease":"lease_000000000000000000000000G0","owner":"worker","poll":"poll"}}','{"claim_version":0,"revision":1,"decided_at":1700000010000,"heard":false}','[{"granted_as_asked":{"fence":4294967297,"expires_at":1700000100000}}]');
INSERT INTO "history" VALUES(2,3,1700000010000,1,1,'{"report":{"caller":{"worker":"worker","attempt":1,"lease":"lease_000000000000000000000000G0","epoch":1},"outcome":{"failed":{"category":"USER_CODE","message":"no","stack_trace":"sha256:d5fcccb71b3647d2e7dbd84aab22f92d467009f129596ad62a9a47c9378fbff3"}},"digest":"fc41f8508d5d14245337d9fa89e79a85bf4f780f5b20fa7f14e7d846902127a9","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"}}','{"claim_version":1,"revision":2,"decided_at":1700000010000,"heartbeat_at":1700000010000,"expires_at":1700000100000,"heard":false}','[{"attempt_closed":{"closed":{"task":"task_00000000000000000000000002","attempt":1,"lease":"lease_000000000000000000000000G0","fence":4294967297,"owner":"worker","granted_at":1700000010000,"started_at":1700000010000,"closed_at":1700000010000,"outcome":"FAILED","fault":{"category":"USER_CODE","message":"no","stack_trace":"sha256:d5fcccb71b3647d2e7dbd84aab22f92d467009f129596ad62a9a47c9378fbff3"},"report":"fc41f8508d5d14245337d9fa89e79a85bf4f780f5b20fa7f14e7d846902127a9","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"},"next":{"retry":{"due":1700000015550}}}}]');
INSERT INTO "history" VALUES(2,4,1700000610000,1,1,'{"grant":{"lease":"lease_000000000000000000000000R0","owner":"worker","poll":"poll"}}','{"claim_version":2,"revision":3,"decided_at":1700000010000,"heard":false}','[{"granted_as_asked":{"fence":4294967299,"expires_at":1700000700000}}]');
INSERT INTO "history" VALUES(2,5,1700000610000,1,1,'{"report":{"caller":{"worker":"worker","attempt":2,"lease":"lease_000000000000000000000000R0","epoch":1},"outcome":{"failed":{"category":"USER_CODE","message":"no","stack_trace":"sha256:d5fcccb71b3647d2e7dbd84aab22f92d467009f129596ad62a9a47c9378fbff3"}},"digest":"fc41f8508d5d14245337d9fa89e79a85bf4f780f5b20fa7f14e7d846902127a9","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"}}','{"claim_version":3,"revision":4,"decided_at":1700000610000,"heartbeat_at":1700000610000,"expires_at":1700000700000,"heard":false}','[{"attempt_closed":{"closed":{"task":"task_00000000000000000000000002","attempt":2,"lease":"lease_000000000000000000000000R0","fence":4294967299,"owner":"worker","granted_at":1700000610000,"started_at":1700000610000,"closed_at":1700000610000,"outcome":"FAILED","reason":"ATTEMPTS_EXHAUSTED","fault":{"category":"USER_CODE","message":"no","stack_trace":"sha256:d5fcccb71b3647d2e7dbd84aab22f92d467009f129596ad62a9a47c9378fbff3"},"report":"fc41f8508d5d14245337d9fa89e79a85bf4f780f5b20fa7f14e7d846902127a9","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"},"next":{"end":{"state":"failed","reason":"ATTEMPTS_EXHAUSTED","fault":{"category":"USER_CODE","message":"no","stack_trace":"sha256:d5fcccb71b3647d2e7dbd84aab22f92d467009f129596ad62a9a47c9378fbff3"}}}}}]');
INSERT INTO "history" VALUES(3,1,1700001210000,1,1,'{"submit":{"id":"task_00000000000000000000000003","scope":{"tenant":"default","workspace":"default"},"kind":"resize","queue":"images","priority":0,"policy":{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000},"input":"9ec514144002965da24b90bc984281b3d5951858a77a52e2010d7b4c10f2df45","fingerprint":"a1925fa881cab79e050d45fe36d899ee77ceddf7a1982102df3d890b9d031445"}}',NULL,'[{"submitted_as_asked":{"due":1700001210000}}]');
INSERT INTO "history" VALUES(3,2,1700001210000,1,1,'{"grant":{"lease":"lease_00000000000000000000000100","owner":"worker","poll":"poll"}}','{"claim_version":0,"revision":1,"decided_at":1700001210000,"heard":false}','[{"granted_as_asked":{"fence":4294967297,"expires_at":1700001300000}}]');
INSERT INTO "history" VALUES(3,3,1700001210000,1,1,'{"cancel":{"reason":"enough","manner":"force"}}','{"claim_version":1,"revision":2,"decided_at":1700001210000,"heartbeat_at":1700001210000,"expires_at":1700001300000,"heard":false}','[{"cancel_requested":{"reason":"enough"}},{"attempt_closed":{"closed":{"task":"task_00000000000000000000000003","attempt":1,"lease":"lease_00000000000000000000000100","fence":4294967297,"owner":"worker","granted_at":1700001210000,"closed_at":1700001210000,"outcome":"REVOKED","reason":"CANCEL_FORCED"},"next":{"end":{"state":"cancelled","reason":"CANCEL_FORCED"}}}}]');
INSERT INTO "history" VALUES(4,1,1700001210000,1,1,'{"submit":{"id":"task_00000000000000000000000004","scope":{"tenant":"default","workspace":"default"},"kind":"resize","queue":"images","priority":0,"policy":{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000},"input":"9ec514144002965da24b90bc984281b3d5951858a77a52e2010d7b4c10f2df45","fingerprint":"a1925fa881cab79e050d45fe36d899ee77ceddf7a1982102df3d890b9d031445"}}',NULL,'[{"submitted_as_asked":{"due":1700001210000}}]');
INSERT INTO "history" VALUES(4,2,1700001210000,1,1,'{"grant":{"lease":"lease_00000000000000000000000180","owner":"worker","poll":"poll"}}','{"claim_version":0,"revision":1,"decided_at":1700001210000,"heard":false}','[{"granted_as_asked":{"fence":4294967297,"expires_at":1700001300000}}]');
INSERT INTO "history" VALUES(4,3,1700001210000,1,1,'{"started":{"caller":{"worker":"worker","attempt":1,"lease":"lease_00000000000000000000000180","epoch":1}}}','{"claim_version":1,"revision":2,"decided_at":1700001210000,"heartbeat_at":1700001210000,"expires_at":1700001300000,"heard":false}','["started"]');
INSERT INTO "history" VALUES(4,4,1700001210000,1,1,'{"cancel":{"reason":"enough","manner":"ask"}}','{"claim_version":1,"revision":3,"decided_at":1700001210000,"heartbeat_at":1700001210000,"expires_at":1700001300000,"heard":true}','[{"cancel_requested":{"reason":"enough"}}]');
INSERT INTO "history" VALUES(4,5,1700001210000,1,1,'{"heartbeat":{"caller":{"worker":"worker","attempt":1,"lease":"lease_00000000000000000000000180","epoch":1}}}','{"claim_version":1,"revision":4,"decided_at":1700001210000,"heartbeat_at":1700001210000,"expires_at":1700001300000,"heard":true}','[{"renewed":{"expires_at":1700001300000}},"cancel_signalled"]');
INSERT INTO "history" VALUES(4,6,1700001210000,1,1,'{"report":{"caller":{"worker":"worker","attempt":1,"lease":"lease_00000000000000000000000180","epoch":1},"outcome":{"cancelled":{}},"digest":"d53ba2618c11963c9099141ed9eee7511a1689435b3ea6a72256dce3af99491b","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"}}','{"claim_version":2,"revision":5,"decided_at":1700001210000,"heartbeat_at":1700001210000,"expires_at":1700001300000,"heard":true}','[{"attempt_closed":{"closed":{"task":"task_00000000000000000000000004","attempt":1,"lease":"lease_00000000000000000000000180","fence":4294967297,"owner":"worker","granted_at":1700001210000,"started_at":1700001210000,"closed_at":1700001210000,"outcome":"CANCELLED","reason":"CANCEL_REQUESTED","report":"d53ba2618c11963c9099141ed9eee7511a1689435b3ea6a72256dce3af99491b","claims":"{\"sha256\":\"72b944bd6da28de9d0a4a70e4efdf410f4c049034686c48da698fd507fe1ab12\"}"},"next":{"end":{"state":"cancelled","reason":"CANCEL_REQUESTED"}}}}]');
INSERT INTO "history" VALUES(5,1,1700001210000,1,1,'{"submit":{"id":"task_00000000000000000000000005","scope":{"tenant":"default","workspace":"default"},"kind":"resize","queue":"images","priority":0,"policy":{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000},"input":"9ec514144002965da24b90bc984281b3d5951858a77a52e2010d7b4c10f2df45","fingerprint":"a1925fa881cab79e050d45fe36d899ee77ceddf7a1982102df3d890b9d031445"}}',NULL,'[{"submitted_as_asked":{"due":1700001210000}}]');
INSERT INTO "history" VALUES(5,2,1700001210000,1,1,'{"grant":{"lease":"lease_000000000000000000000001G0","owner":"worker","poll":"poll"}}','{"claim_version":0,"revision":1,"decided_at":1700001210000,"heard":false}','[{"granted_as_asked":{"fence":4294967297,"expires_at":1700001300000}}]');
INSERT INTO "history" VALUES(5,3,1700001810000,1,1,'"sweep"','{"claim_version":2,"revision":3,"decided_at":1700001210000,"heartbeat_at":1700001210000,"expires_at":1700001300000,"heard":true}','[{"attempt_closed":{"closed":{"task":"task_00000000000000000000000005","attempt":1,"lease":"lease_000000000000000000000001G0","fence":4294967297,"owner":"worker","granted_at":1700001210000,"closed_at":1700001810000,"outcome":"LOST","reason":"HEARTBEAT_TIMEOUT"},"next":{"retry":{"due":1700001810000}}}}]');
INSERT INTO "history" VALUES(5,4,1700001810000,1,1,'{"grant":{"lease":"lease_000000000000000000000001R0","owner":"worker","poll":"poll"}}','{"claim_version":3,"revision":4,"decided_at":1700001810000,"heard":false}','[{"granted_as_asked":{"fence":4294967300,"expires_at":1700001900000}}]');
INSERT INTO "history" VALUES(6,1,1700001810000,1,1,'{"submit":{"id":"task_00000000000000000000000006","scope":{"tenant":"default","workspace":"default"},"kind":"resize","queue":"images","priority":0,"policy":{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000},"input":"9ec514144002965da24b90bc984281b3d5951858a77a52e2010d7b4c10f2df45","fingerprint":"a1925fa881cab79e050d45fe36d899ee77ceddf7a1982102df3d890b9d031445"}}',NULL,'[{"submitted_as_asked":{"due":1700001810000}}]');
CREATE TABLE inputs (
    row         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    lane        INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    -- NULL when the task ended in the commit that created it: then only its history knows.
    policy      TEXT,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    key         TEXT,
    goal        TEXT,
    task_key    TEXT,
    asset_id    TEXT,
    resources   TEXT,
    labels      TEXT,
    traceparent TEXT,
    input       TEXT    NOT NULL
) STRICT;
INSERT INTO "inputs" VALUES(1,X'00000000000000000000000000000001',0,0,1700000000000,'{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000}',X'A1925FA881CAB79E050D45FE36D899EE77CEDDF7A1982102DF3D890B9D031445',NULL,'smaller',NULL,NULL,NULL,'{"team":"blue"}',NULL,'{"width":640}');
INSERT INTO "inputs" VALUES(2,X'00000000000000000000000000000002',0,0,1700000010000,'{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":2,"lost_max":3,"retry_base":5000,"retry_cap":300000}',X'A1925FA881CAB79E050D45FE36D899EE77CEDDF7A1982102DF3D890B9D031445','k','smaller',NULL,NULL,NULL,'{"team":"blue"}',NULL,'{"width":640}');
INSERT INTO "inputs" VALUES(3,X'00000000000000000000000000000003',0,0,1700001210000,'{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000}',X'A1925FA881CAB79E050D45FE36D899EE77CEDDF7A1982102DF3D890B9D031445',NULL,'smaller',NULL,NULL,NULL,'{"team":"blue"}',NULL,'{"width":640}');
INSERT INTO "inputs" VALUES(4,X'00000000000000000000000000000004',0,0,1700001210000,'{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000}',X'A1925FA881CAB79E050D45FE36D899EE77CEDDF7A1982102DF3D890B9D031445',NULL,'smaller',NULL,NULL,NULL,'{"team":"blue"}',NULL,'{"width":640}');
INSERT INTO "inputs" VALUES(5,X'00000000000000000000000000000005',0,0,1700001210000,'{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000}',X'A1925FA881CAB79E050D45FE36D899EE77CEDDF7A1982102DF3D890B9D031445',NULL,'smaller',NULL,NULL,NULL,'{"team":"blue"}',NULL,'{"width":640}');
INSERT INTO "inputs" VALUES(6,X'00000000000000000000000000000006',0,0,1700001810000,'{"lease":90000,"heartbeat_every":30000,"cancel_grace":30000,"failures_max":3,"lost_max":3,"retry_base":5000,"retry_cap":300000}',X'A1925FA881CAB79E050D45FE36D899EE77CEDDF7A1982102DF3D890B9D031445',NULL,'smaller',NULL,NULL,NULL,'{"team":"blue"}',NULL,'{"width":640}');
CREATE TABLE keys (
    n    INTEGER PRIMARY KEY,
    hour INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    task INTEGER NOT NULL
) STRICT;
INSERT INTO "keys" VALUES(1,472222,5189384031201707950,2);
CREATE TABLE lanes (
    lane      INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    workspace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    kind      TEXT NOT NULL
) STRICT;
INSERT INTO "lanes" VALUES(0,'default','default','images','resize');
CREATE TABLE live (
    row           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('queued', 'retry', 'running')),
    revision      INTEGER NOT NULL CHECK (revision >= 1),
    due           INTEGER,
    wakes_at      INTEGER,
    lease_ms      INTEGER NOT NULL,
    started_at    INTEGER,
    attempt       INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    undelivered   INTEGER NOT NULL,
    claim_version INTEGER NOT NULL,
    decided_at    INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    chain         BLOB    NOT NULL CHECK (length(chain) = 32),
    cancel        TEXT,
    lease         BLOB,
    owner         TEXT,
    poll          TEXT,
    fence         INTEGER,
    acquired_at   INTEGER,
    heartbeat_at  INTEGER,
    expires_at    INTEGER,
    attempt_at    INTEGER,
    heard         INTEGER,
    progress      TEXT,
    CHECK ((state = 'running') = (due IS NULL)),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (fence IS NOT NULL)),
    CHECK ((state = 'running') = (expires_at IS NOT NULL))
) STRICT;
INSERT INTO "live" VALUES(5,X'00000000000000000000000000000005',0,0,'running',6,NULL,1700001900000,90000,NULL,2,0,1,0,5,1700001810000,4,X'085D12C457B93FD49B3B9D3460DF396DA3A0EE1ACD2EC9CAB049798049495268',NULL,X'00000000000000000000000000000700','worker','poll',4294967300,1700001810000,1700001810000,1700001900000,NULL,1,NULL);
INSERT INTO "live" VALUES(6,X'00000000000000000000000000000006',0,0,'queued',1,1700001810000,NULL,90000,NULL,0,0,0,0,0,1700001810000,1,X'15DBB46476A24072C3B051CD6F07ACA3C1F4C0D31AD25F812C99CBD2D4039C1B',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE meta (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB    NOT NULL CHECK (length(store_id) = 16),
    epoch    INTEGER NOT NULL CHECK (epoch >= 1),
    -- The time of the last commit; NULL before the first.
    clock    INTEGER
) STRICT;
INSERT INTO "meta" VALUES(1,X'66F66D6BCB2BEABF73932CCFE8E75AA5',1,1700001810000);
CREATE TABLE refinery_schema_history(
             version int4 PRIMARY KEY,
             name VARCHAR(255),
             applied_on VARCHAR(255),
             checksum VARCHAR(255));
INSERT INTO "refinery_schema_history" VALUES(1,'tasks','2026-11-15T06:16:22.37906521Z','4438167607823567449');
INSERT INTO "refinery_schema_history" VALUES(2,'administration','2026-11-15T06:16:22.379098253Z','6798203013828401985');
CREATE TABLE refused (
    n       INTEGER PRIMARY KEY,
    task    INTEGER NOT NULL,
    lease   BLOB    NOT NULL,
    call    TEXT    NOT NULL,
    code    TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    worker  TEXT    NOT NULL,
    stamp   TEXT    NOT NULL CHECK (stamp IN ('committed', 'cancelled', 'rejected')),
    digest  BLOB,
    at      INTEGER NOT NULL,
    UNIQUE (task, lease, call, code)
) STRICT;
CREATE TRIGGER live_is_known BEFORE INSERT ON live
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row AND id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a live task must have been submitted'); END;
CREATE TRIGGER live_is_not_done BEFORE INSERT ON live
WHEN EXISTS (SELECT 1 FROM done WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'an ended task never lives again'); END;
CREATE TRIGGER live_keeps_its_id BEFORE UPDATE OF row, id, lane, priority ON live
BEGIN SELECT RAISE(ABORT, 'what names a task never changes'); END;
CREATE TRIGGER done_is_known BEFORE INSERT ON done
WHEN NOT EXISTS (SELECT 1 FROM inputs WHERE row = NEW.row)
  OR EXISTS (SELECT 1 FROM live WHERE row = NEW.row)
BEGIN SELECT RAISE(ABORT, 'only a submitted task that lives no more is done'); END;
CREATE TRIGGER inputs_no_update BEFORE UPDATE ON inputs
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER inputs_no_delete BEFORE DELETE ON inputs
BEGIN SELECT RAISE(ABORT, 'inputs are written once'); END;
CREATE TRIGGER done_no_update BEFORE UPDATE ON done
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER done_no_delete BEFORE DELETE ON done
BEGIN SELECT RAISE(ABORT, 'an ended task never changes'); END;
CREATE TRIGGER attempts_no_update BEFORE UPDATE ON attempts
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
BEGIN SELECT RAISE(ABORT, 'closed attempts are written once'); END;
CREATE TRIGGER history_no_update BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER history_no_delete BEFORE DELETE ON history
BEGIN SELECT RAISE(ABORT, 'history is written once'); END;
CREATE TRIGGER refused_no_update BEFORE UPDATE ON refused
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;
CREATE TRIGGER refused_no_delete BEFORE DELETE ON refused
BEGIN SELECT RAISE(ABORT, 'refusals are written once'); END;
CREATE TRIGGER api_keys_stay BEFORE DELETE ON api_keys
BEGIN SELECT RAISE(ABORT, 'a key is revoked, never deleted'); END;
CREATE TRIGGER api_keys_keep_their_scope BEFORE UPDATE OF id, tenant, workspace ON api_keys
WHEN OLD.tenant <> NEW.tenant OR OLD.workspace <> NEW.workspace OR OLD.id <> NEW.id
BEGIN SELECT RAISE(ABORT, 'a key never changes its scope'); END;
CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE ON api_keys
WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
BEGIN SELECT RAISE(ABORT, 'a revoked key stays revoked'); END;
CREATE INDEX audit_by_tenant ON audit (tenant, n);
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is written once'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is written once'); END;
COMMIT;
