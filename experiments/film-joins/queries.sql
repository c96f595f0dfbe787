-- 33 families of joins in the manner of the Join Order Benchmark, whose variants differ in their conditions.

-- name: 1a
select min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mx.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and ct.kind = 'distributors'
  and itx.info = 'rating';

-- name: 1b
select min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mx.movie_id
  and t.production_year between 2005 and 2010
  and ct.kind = 'distributors'
  and itx.info = 'rating' and mx.info < '3.5';

-- name: 1c
select min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mx.movie_id
  and t.production_year > 2000
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and ct.kind = 'production companies'
  and itx.info = 'rating' and mx.info > '7.0';

-- name: 1d
select min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mx.movie_id
  and mc.note is null
  and ct.kind = 'production companies'
  and itx.info = 'rating' and mx.info < '3.5';

-- name: 2a
select min(cn.name), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mk.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code = '[us]'
  and k.keyword = 'marvel-cinematic-universe';

-- name: 2b
select min(cn.name), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mk.movie_id
  and t.production_year > 2000
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code = '[de]'
  and k.keyword = 'character-name-in-title';

-- name: 2c
select min(cn.name), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mk.movie_id
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet');

-- name: 3a
select min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_keyword mk, keyword k
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mk.movie_id
  and t.production_year > 2000
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%');

-- name: 3b
select min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_keyword mk, keyword k
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mk.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet');

-- name: 3c
select min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_keyword mk, keyword k
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mk.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity');

-- name: 4a
select min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mx.movie_id = mk.movie_id
  and t.production_year between 2005 and 2010
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword = 'marvel-cinematic-universe';

-- name: 4b
select min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mx.movie_id = mk.movie_id
  and itx.info = 'top 250 rank'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity');

-- name: 4c
select min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mx.movie_id = mk.movie_id
  and t.production_year < 1980
  and itx.info = 'rating'
  and k.keyword = 'character-name-in-title';

-- name: 5a
select min(mi.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info mi, info_type it
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mc.movie_id = mi.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and ct.kind = 'distributors'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War');

-- name: 5b
select min(mi.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info mi, info_type it
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mc.movie_id = mi.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and ct.kind = 'distributors'
  and it.info = 'budget';

-- name: 5c
select min(mi.info), min(t.title), count(*)
from title t, movie_companies mc, company_type ct, movie_info mi, info_type it
where mc.movie_id = t.id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mc.movie_id = mi.movie_id
  and t.production_year between 1950 and 2000
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and ct.kind = 'production companies'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War');

-- name: 6a
select min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, cast_info ci, name n
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mk.movie_id = ci.movie_id
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity');

-- name: 6b
select min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, cast_info ci, name n
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mk.movie_id = ci.movie_id
  and k.keyword = 'character-name-in-title'
  and ci.nr_order is null
  and n.name like 'An%';

-- name: 6c
select min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, cast_info ci, name n
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mk.movie_id = ci.movie_id
  and k.keyword like '%sequel%'
  and ci.nr_order is null
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%');

-- name: 6d
select min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, cast_info ci, name n
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mk.movie_id = ci.movie_id
  and t.production_year < 1980
  and k.keyword = 'marvel-cinematic-universe'
  and ci.note is null and ci.nr_order < 5
  and n.gender = 'f';

-- name: 7a
select min(n.name), min(an.name), min(pi.info), min(t.title), count(*)
from title t, cast_info ci, name n, aka_name an, person_info pi, info_type itp, movie_link ml, link_type lt
where ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and ci.movie_id = ml.movie_id
  and ci.note like '%(uncredited)%'
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el'
  and an.name like 'Champ%'
  and itp.info in ('trivia', 'birth notes')
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 7b
select min(n.name), min(an.name), min(pi.info), min(t.title), count(*)
from title t, cast_info ci, name n, aka_name an, person_info pi, info_type itp, movie_link ml, link_type lt
where ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and ci.movie_id = ml.movie_id
  and t.production_year between 2005 and 2010
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and n.gender = 'f'
  and an.name like 'Champ%'
  and itp.info in ('trivia', 'birth notes')
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 7c
select min(n.name), min(an.name), min(pi.info), min(t.title), count(*)
from title t, cast_info ci, name n, aka_name an, person_info pi, info_type itp, movie_link ml, link_type lt
where ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and ci.movie_id = ml.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and an.name like 'Champ%'
  and itp.info = 'mini biography'
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 7d
select min(n.name), min(an.name), min(pi.info), min(t.title), count(*)
from title t, cast_info ci, name n, aka_name an, person_info pi, info_type itp, movie_link ml, link_type lt
where ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and ci.movie_id = ml.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and ci.nr_order is null
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el'
  and an.name like '%a%'
  and itp.info = 'mini biography'
  and lt.link = 'spin off';

-- name: 8a
select min(cn.name), min(n.name), min(an.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code = '[us]'
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el'
  and rt.role = 'costume designer'
  and an.name like '%a%';

-- name: 8b
select min(cn.name), min(n.name), min(an.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and t.production_year between 2005 and 2010
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and rt.role = 'actress'
  and an.name like 'Champ%';

-- name: 8c
select min(cn.name), min(n.name), min(an.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and t.production_year < 1980
  and cn.country_code = '[us]'
  and ci.nr_order is null
  and rt.role = 'actress'
  and an.name like '%a%';

-- name: 9a
select min(cn.name), min(n.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and t.production_year < 1980
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.name like 'An%' and cn.country_code is not null
  and ci.note in ('(voice)', '(voice: English version)', '(voice) (uncredited)')
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%')
  and rt.role in ('writer', 'producer')
  and chn.name like '%Man%'
  and an.name like 'Champ%';

-- name: 9b
select min(cn.name), min(n.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ci.note like '%(uncredited)%'
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%')
  and rt.role = 'actress'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like '%a%';

-- name: 9c
select min(cn.name), min(n.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.name like 'An%' and cn.country_code is not null
  and ci.nr_order is null
  and n.name like 'An%'
  and rt.role = 'actress'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like '%a%';

-- name: 9d
select min(cn.name), min(n.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = ci.movie_id
  and t.production_year < 1980
  and mc.note like '%(theatrical)%'
  and cn.country_code is null
  and n.gender is null
  and rt.role = 'costume designer'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like 'Champ%';

-- name: 10a
select min(cn.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, cast_info ci, role_type rt, char_name chn
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and ci.movie_id = t.id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and mc.movie_id = ci.movie_id
  and t.production_year between 2005 and 2010
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind <> 'distributors'
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and rt.role = 'costume designer'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%');

-- name: 10b
select min(cn.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, cast_info ci, role_type rt, char_name chn
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and ci.movie_id = t.id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and mc.movie_id = ci.movie_id
  and cn.country_code is null
  and ct.kind <> 'distributors'
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and rt.role = 'actress'
  and chn.name like '%Man%';

-- name: 10c
select min(cn.name), min(chn.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, cast_info ci, role_type rt, char_name chn
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and ci.movie_id = t.id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and mc.movie_id = ci.movie_id
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.name like 'An%' and cn.country_code is not null
  and ct.kind <> 'distributors'
  and ci.note in ('(voice)', '(voice: English version)', '(voice) (uncredited)')
  and rt.role = 'actress'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%');

-- name: 11a
select min(cn.name), min(k.keyword), min(lt.link), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_keyword mk, keyword k, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ml.movie_id
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code is null
  and ct.kind = 'production companies'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 11b
select min(cn.name), min(k.keyword), min(lt.link), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_keyword mk, keyword k, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ml.movie_id
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.name like 'An%' and cn.country_code is not null
  and ct.kind = 'distributors'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 11c
select min(cn.name), min(k.keyword), min(lt.link), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_keyword mk, keyword k, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ml.movie_id
  and t.production_year > 2000
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind = 'production companies'
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 12a
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and ct.kind = 'production companies'
  and it.info = 'release dates' and mi.note like '%internet%'
  and itx.info = 'rating';

-- name: 12b
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and mc.note is null
  and cn.country_code = '[de]'
  and ct.kind = 'distributors'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'rating' and mx.info < '3.5';

-- name: 12c
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and ct.kind = 'distributors'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'rating';

-- name: 13a
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and t.production_year between 2005 and 2010
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind = 'production companies'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'rating';

-- name: 13b
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and kt.kind = 'episode'
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code = '[de]'
  and ct.kind <> 'distributors'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'rating' and mx.info > '7.0';

-- name: 13c
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and t.production_year < 1980
  and kt.kind in ('movie', 'episode')
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind = 'production companies'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and itx.info = 'rating';

-- name: 13d
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and t.production_year < 1980
  and kt.kind in ('movie', 'episode')
  and cn.country_code is null
  and ct.kind = 'production companies'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'rating' and mx.info < '3.5';

-- name: 14a
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and t.production_year between 1950 and 2000
  and kt.kind in ('movie', 'episode')
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'rating' and mx.info > '7.0'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity');

-- name: 14b
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and itx.info = 'rating' and mx.info > '7.0'
  and k.keyword = 'character-name-in-title';

-- name: 14c
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and t.production_year between 1950 and 2000
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'top 250 rank'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet');

-- name: 14d
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and kt.kind in ('tv series', 'video game')
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and itx.info = 'rating'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity');

-- name: 15a
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, aka_title at
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and at.movie_id = t.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = at.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and mc.note like '%(theatrical)%'
  and cn.country_code is null
  and ct.kind = 'production companies'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet');

-- name: 15b
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, aka_title at
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and at.movie_id = t.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = at.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and mc.note is null
  and cn.country_code = '[us]'
  and ct.kind = 'distributors'
  and it.info = 'release dates' and mi.note like '%internet%'
  and k.keyword like '%sequel%';

-- name: 15c
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, aka_title at
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and at.movie_id = t.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = at.movie_id
  and mc.note is null
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and ct.kind = 'distributors'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet');

-- name: 15d
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, aka_title at
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and at.movie_id = t.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = at.movie_id
  and cn.country_code is null
  and ct.kind = 'production companies'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and k.keyword = 'marvel-cinematic-universe';

-- name: 16a
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year between 1950 and 2000
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and k.keyword = 'character-name-in-title'
  and an.name like 'Champ%';

-- name: 16b
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year between 2005 and 2010
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code = '[us]'
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%')
  and an.name like 'Champ%';

-- name: 16c
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and k.keyword like '%sequel%'
  and ci.nr_order is null
  and an.name like 'Champ%';

-- name: 16d
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and an.person_id = n.id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year < 1980
  and cn.country_code = '[us]'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and ci.nr_order is null
  and n.gender = 'f'
  and an.name like 'Champ%';

-- name: 17a
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and mc.note is null
  and cn.name like 'An%' and cn.country_code is not null
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and ci.nr_order is null;

-- name: 17b
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year < 1980
  and mc.note is null
  and cn.country_code is null
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and ci.note is null and ci.nr_order < 5;

-- name: 17c
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.name like 'An%' and cn.country_code is not null
  and k.keyword like '%sequel%'
  and ci.nr_order is null
  and n.gender = 'f';

-- name: 17d
select min(cn.name), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code is null
  and k.keyword like '%sequel%'
  and ci.note is null and ci.nr_order < 5
  and n.gender = 'm' and n.name like '%Tim%';

-- name: 18a
select min(mi.info), min(mx.info), min(n.name), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = ci.movie_id
  and t.production_year between 1950 and 2000
  and it.info = 'budget'
  and itx.info = 'rating' and mx.info > '7.0'
  and ci.note in ('(producer)', '(executive producer)')
  and n.gender = 'm' and n.name like '%Tim%';

-- name: 18b
select min(mi.info), min(mx.info), min(n.name), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = ci.movie_id
  and t.production_year between 1950 and 2000
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and itx.info = 'top 250 rank'
  and ci.note in ('(producer)', '(executive producer)')
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el';

-- name: 18c
select min(mi.info), min(mx.info), min(n.name), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = ci.movie_id
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'rating'
  and ci.note in ('(writer)', '(head writer)', '(story)');

-- name: 19a
select min(cn.name), min(mi.info), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = ci.movie_id
  and cn.country_code is null
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and ci.note in ('(producer)', '(executive producer)')
  and n.gender = 'm' and n.name like '%Tim%'
  and rt.role = 'actress'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like '%a%';

-- name: 19b
select min(cn.name), min(mi.info), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = ci.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and it.info = 'budget'
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and n.gender = 'm' and n.name like '%Tim%'
  and rt.role = 'actress'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like 'Champ%';

-- name: 19c
select min(cn.name), min(mi.info), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = ci.movie_id
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code = '[us]'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and ci.note like '%(uncredited)%'
  and rt.role = 'actress'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like '%a%';

-- name: 19d
select min(cn.name), min(mi.info), min(n.name), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = ci.movie_id
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code is null
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and rt.role in ('writer', 'producer')
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and an.name like '%a%';

-- name: 20a
select min(k.keyword), min(n.name), min(chn.name), min(t.title), count(*)
from title t, kind_type kt, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and kt.kind = 'episode'
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%')
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified';

-- name: 20b
select min(k.keyword), min(n.name), min(chn.name), min(t.title), count(*)
from title t, kind_type kt, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and kt.kind in ('tv series', 'video game')
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and chn.name like 'Queen%'
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified';

-- name: 20c
select min(k.keyword), min(n.name), min(chn.name), min(t.title), count(*)
from title t, kind_type kt, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and kt.kind in ('tv series', 'video game')
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and ci.nr_order is null
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el'
  and chn.name like 'Queen%'
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified';

-- name: 21a
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ml.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and cn.country_code = '[us]'
  and ct.kind = 'production companies'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and k.keyword = 'marvel-cinematic-universe'
  and lt.link like '%follow%';

-- name: 21b
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ml.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and cn.name like 'An%' and cn.country_code is not null
  and ct.kind = 'production companies'
  and it.info = 'budget'
  and k.keyword = 'marvel-cinematic-universe'
  and lt.link like '%follow%';

-- name: 21c
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ml.movie_id
  and t.production_year between 1950 and 2000
  and mc.note like '%(theatrical)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind <> 'distributors'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and lt.link in ('references', 'featured in', 'spoofs');

-- name: 22a
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and kt.kind in ('tv series', 'video game')
  and cn.name like 'An%' and cn.country_code is not null
  and ct.kind = 'production companies'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword = 'character-name-in-title';

-- name: 22b
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and kt.kind = 'movie'
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code = '[de]'
  and ct.kind = 'production companies'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and itx.info = 'rating' and mx.info > '7.0'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity');

-- name: 22c
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind <> 'distributors'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword = 'marvel-cinematic-universe';

-- name: 22d
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and kt.kind in ('tv series', 'video game')
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.country_code is null
  and ct.kind = 'distributors'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'top 250 rank'
  and k.keyword like '%sequel%';

-- name: 23a
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cf
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and kt.kind in ('movie', 'episode')
  and cn.country_code is null
  and ct.kind = 'distributors'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and cf.kind like '%complete%';

-- name: 23b
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cf
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and t.production_year > 2000
  and kt.kind in ('tv series', 'video game')
  and mc.note is null
  and cn.name like 'An%' and cn.country_code is not null
  and ct.kind = 'production companies'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and k.keyword like '%sequel%'
  and cf.kind = 'complete+verified';

-- name: 23c
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cf
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and kt.kind in ('movie', 'episode')
  and mc.note like '%(200%)%' and mc.note like '%(USA)%'
  and cn.name like 'An%' and cn.country_code is not null
  and ct.kind = 'distributors'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and cf.kind = 'complete+verified';

-- name: 24a
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_keyword mk, keyword k, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and mc.note is null
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and k.keyword like '%sequel%'
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and n.name like 'An%'
  and rt.role in ('writer', 'producer')
  and chn.name like 'Queen%'
  and an.name like 'Champ%';

-- name: 24b
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_keyword mk, keyword k, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year between 1950 and 2000
  and mc.note like '%(theatrical)%'
  and cn.country_code is null
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and k.keyword = 'marvel-cinematic-universe'
  and ci.note is null and ci.nr_order < 5
  and n.gender = 'f'
  and rt.role = 'actress'
  and chn.name like '%Man%'
  and an.name like '%a%';

-- name: 24c
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_keyword mk, keyword k, cast_info ci, name n, role_type rt, char_name chn, aka_name an
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and k.keyword like '%sequel%'
  and ci.nr_order is null
  and n.gender is null
  and rt.role = 'costume designer'
  and chn.name like 'Queen%'
  and an.name like '%a%';

-- name: 25a
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'rating'
  and k.keyword = 'marvel-cinematic-universe';

-- name: 25b
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year > 2000
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and itx.info = 'rating' and mx.info > '7.0'
  and k.keyword = 'marvel-cinematic-universe'
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el';

-- name: 25c
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year < 1980
  and it.info = 'release dates' and mi.note like '%internet%'
  and itx.info = 'rating'
  and k.keyword = 'character-name-in-title'
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el';

-- name: 25d
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year between 2005 and 2010
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'rating'
  and k.keyword like '%sequel%';

-- name: 26a
select min(mx.info), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, kind_type kt, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and kt.kind = 'episode'
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword = 'marvel-cinematic-universe'
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and n.gender = 'f'
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified';

-- name: 26b
select min(mx.info), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, kind_type kt, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and itx.info = 'top 250 rank'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and cs.kind in ('cast', 'crew')
  and cf.kind like '%complete%';

-- name: 26c
select min(mx.info), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, kind_type kt, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and t.production_year between 2005 and 2010
  and kt.kind = 'movie'
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword like '%sequel%'
  and ci.note like '%(uncredited)%'
  and n.gender is null
  and chn.name like '%Man%'
  and cs.kind in ('cast', 'crew')
  and cf.kind = 'complete+verified';

-- name: 26d
select min(mx.info), min(k.keyword), min(n.name), min(t.title), count(*)
from title t, kind_type kt, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, char_name chn, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and chn.id = ci.person_role_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and itx.info = 'rating'
  and k.keyword = 'marvel-cinematic-universe'
  and ci.note in ('(producer)', '(executive producer)')
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%')
  and (chn.name = 'Himself Doan' or chn.name like '%Himself%')
  and cs.kind = 'cast'
  and cf.kind like '%complete%';

-- name: 27a
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cs, comp_cast_type cf, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and cc.movie_id = ml.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code = '[us]'
  and ct.kind = 'distributors'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and k.keyword = 'marvel-cinematic-universe'
  and cs.kind in ('cast', 'crew')
  and cf.kind like '%complete%'
  and lt.link like '%follow%';

-- name: 27b
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cs, comp_cast_type cf, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and cc.movie_id = ml.movie_id
  and t.production_year between 2005 and 2010
  and cn.country_code = '[de]'
  and ct.kind = 'production companies'
  and it.info = 'release dates' and mi.note like '%internet%'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified'
  and lt.link like '%follow%';

-- name: 27c
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cs, comp_cast_type cf, movie_link ml, link_type lt
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and cc.movie_id = ml.movie_id
  and t.production_year > 2000
  and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
  and cn.country_code is null
  and ct.kind = 'distributors'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and k.keyword like '%sequel%'
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified'
  and lt.link like '%follow%';

-- name: 28a
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and t.production_year > 2000
  and kt.kind = 'movie'
  and cn.country_code = '[de]'
  and ct.kind = 'production companies'
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'rating'
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and cs.kind in ('cast', 'crew')
  and cf.kind like '%complete%';

-- name: 28b
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and t.production_year between 2005 and 2010
  and kt.kind = 'movie'
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code = '[us]'
  and ct.kind = 'production companies'
  and it.info = 'release dates' and mi.info like 'USA:%200%'
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and cs.kind = 'cast'
  and cf.kind like '%complete%';

-- name: 28c
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, company_type ct, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and ct.id = mc.company_type_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = cc.movie_id
  and mc.note like '%(theatrical)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and ct.kind = 'distributors'
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and cs.kind in ('cast', 'crew')
  and cf.kind like '%complete%';

-- name: 29a
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_keyword mk, keyword k, cast_info ci, name n, role_type rt, char_name chn, aka_name an, person_info pi, info_type itp, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.country_code = '[de]'
  and it.info = 'budget'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and ci.note like '%(uncredited)%'
  and rt.role = 'actress'
  and chn.name like '%Man%'
  and an.name like '%a%'
  and itp.info = 'mini biography'
  and cs.kind in ('cast', 'crew')
  and cf.kind like '%complete%';

-- name: 29b
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_keyword mk, keyword k, cast_info ci, name n, role_type rt, char_name chn, aka_name an, person_info pi, info_type itp, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and mc.note is null
  and cn.country_code is null
  and it.info = 'genres' and mi.info in ('Drama', 'Horror')
  and k.keyword like '%sequel%'
  and ci.note is null and ci.nr_order < 5
  and n.name like 'An%'
  and rt.role = 'actress'
  and chn.name like 'Queen%'
  and an.name like '%a%'
  and itp.info = 'mini biography'
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified';

-- name: 29c
select min(cn.name), min(mi.info), min(k.keyword), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_keyword mk, keyword k, cast_info ci, name n, role_type rt, char_name chn, aka_name an, person_info pi, info_type itp, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and rt.id = ci.role_id
  and chn.id = ci.person_role_id
  and an.person_id = n.id
  and pi.person_id = n.id
  and itp.id = pi.info_type_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and mc.note like '%(theatrical)%'
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and it.info = 'budget'
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and rt.role = 'actress'
  and chn.name like 'Queen%'
  and an.name like 'Champ%'
  and itp.info = 'mini biography'
  and cs.kind = 'cast'
  and cf.kind like '%complete%';

-- name: 30a
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and t.production_year > 2000
  and it.info = 'countries' and mi.info in ('Sweden', 'Norway', 'Germany', 'Denmark')
  and itx.info = 'top 250 rank'
  and k.keyword = 'marvel-cinematic-universe'
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%')
  and cs.kind = 'cast'
  and cf.kind like '%complete%';

-- name: 30b
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and itx.info = 'rating'
  and k.keyword in ('murder', 'blood', 'gore', 'violence', 'female-nudity')
  and ci.note in ('(producer)', '(executive producer)')
  and n.name like '%Do%' and n.name_pcode_cf between 'an' and 'el'
  and cs.kind in ('cast', 'crew')
  and cf.kind like '%complete%';

-- name: 30c
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and (t.title like '%Champ%' or t.title like 'The %')
  and it.info = 'budget'
  and itx.info = 'rating' and mx.info > '7.0'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and ci.note in ('(writer)', '(head writer)', '(story)')
  and n.gender = 'm' and n.name like '%Tim%'
  and cs.kind = 'cast'
  and cf.kind like '%complete%';

-- name: 30d
select min(mi.info), min(mx.info), min(k.keyword), min(t.title), count(*)
from title t, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n, complete_cast cc, comp_cast_type cs, comp_cast_type cf
where mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and cc.movie_id = t.id
  and cs.id = cc.subject_id
  and cf.id = cc.status_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and ci.movie_id = cc.movie_id
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword like '%sequel%'
  and ci.note like '%(uncredited)%'
  and cs.kind = 'cast'
  and cf.kind = 'complete+verified';

-- name: 31a
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year > 2000
  and mc.note like '%(theatrical)%'
  and cn.country_code = '[us]'
  and it.info = 'genres' and mi.info in ('Horror', 'Action', 'Sci-Fi', 'Thriller', 'Crime', 'War')
  and itx.info = 'top 250 rank'
  and k.keyword like '%sequel%'
  and n.gender = 'f';

-- name: 31b
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and t.production_year < 1980
  and mc.note not like '%(TV)%' and mc.note like '%(USA)%'
  and cn.name like 'An%' and cn.country_code is not null
  and it.info = 'release dates' and mi.note like '%internet%'
  and itx.info = 'rating' and mx.info < '3.5'
  and k.keyword like '%sequel%'
  and n.gender = 'm' and n.name like '%Tim%';

-- name: 31c
select min(cn.name), min(mi.info), min(mx.info), min(t.title), count(*)
from title t, movie_companies mc, company_name cn, movie_info mi, info_type it, movie_info_idx mx, info_type itx, movie_keyword mk, keyword k, cast_info ci, name n
where mc.movie_id = t.id
  and cn.id = mc.company_id
  and mi.movie_id = t.id
  and it.id = mi.info_type_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ci.movie_id = t.id
  and n.id = ci.person_id
  and mc.movie_id = mi.movie_id
  and mi.movie_id = mx.movie_id
  and mx.movie_id = mk.movie_id
  and mk.movie_id = ci.movie_id
  and mc.note like '%(theatrical)%'
  and cn.country_code = '[de]'
  and it.info = 'release dates' and mi.note like '%internet%'
  and itx.info = 'rating' and mx.info > '7.0'
  and k.keyword in ('superhero', 'sequel', 'marvel-cinematic-universe', 'web', 'revenge', 'magnet')
  and n.gender = 'm' and (n.name like 'B%' or n.name like '%Yz%');

-- name: 32a
select min(k.keyword), min(lt.link), min(t2.title), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, movie_link ml, link_type lt, title t2
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and t2.id = ml.linked_movie_id
  and mk.movie_id = ml.movie_id
  and t.production_year between 1950 and 2000
  and k.keyword = 'marvel-cinematic-universe'
  and lt.link like '%follow%'
  and t2.production_year > 1990;

-- name: 32b
select min(k.keyword), min(lt.link), min(t2.title), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, movie_link ml, link_type lt, title t2
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and t2.id = ml.linked_movie_id
  and mk.movie_id = ml.movie_id
  and (k.keyword in ('hero', 'love') or k.keyword like 'champ%')
  and lt.link like '%follow%'
  and t2.production_year > 1990;

-- name: 32c
select min(k.keyword), min(lt.link), min(t2.title), min(t.title), count(*)
from title t, movie_keyword mk, keyword k, movie_link ml, link_type lt, title t2
where mk.movie_id = t.id
  and k.id = mk.keyword_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and t2.id = ml.linked_movie_id
  and mk.movie_id = ml.movie_id
  and t.production_year > 1990 and t.title like 'The %'
  and k.keyword = 'character-name-in-title'
  and lt.link like '%follow%'
  and t2.production_year > 1990;

-- name: 33a
select min(cn.name), min(mx.info), min(lt.link), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, movie_info_idx mx, info_type itx, movie_link ml, link_type lt, title t2, movie_companies mc2, company_name cn2, movie_info_idx my2, kind_type kt2
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and t2.id = ml.linked_movie_id
  and mc2.movie_id = t2.id
  and cn2.id = mc2.company_id
  and my2.movie_id = t2.id
  and kt2.id = t2.kind_id
  and mc.movie_id = mx.movie_id
  and mx.movie_id = ml.movie_id
  and t.production_year > 2000
  and cn.country_code in ('[se]', '[dk]', '[no]')
  and itx.info = 'rating'
  and lt.link like '%follow%'
  and t2.production_year between 2005 and 2008
  and my2.info < '6.0';

-- name: 33b
select min(cn.name), min(mx.info), min(lt.link), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, movie_info_idx mx, info_type itx, movie_link ml, link_type lt, title t2, movie_companies mc2, company_name cn2, movie_info_idx my2, kind_type kt2
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and t2.id = ml.linked_movie_id
  and mc2.movie_id = t2.id
  and cn2.id = mc2.company_id
  and my2.movie_id = t2.id
  and kt2.id = t2.kind_id
  and mc.movie_id = mx.movie_id
  and mx.movie_id = ml.movie_id
  and t.episode_nr >= 50 and t.episode_nr < 100
  and kt.kind = 'episode'
  and mc.note is null
  and cn.country_code is null
  and itx.info = 'rating'
  and lt.link like '%follow%'
  and t2.production_year > 1990
  and my2.info < '6.0';

-- name: 33c
select min(cn.name), min(mx.info), min(lt.link), min(t.title), count(*)
from title t, kind_type kt, movie_companies mc, company_name cn, movie_info_idx mx, info_type itx, movie_link ml, link_type lt, title t2, movie_companies mc2, company_name cn2, movie_info_idx my2, kind_type kt2
where kt.id = t.kind_id
  and mc.movie_id = t.id
  and cn.id = mc.company_id
  and mx.movie_id = t.id
  and itx.id = mx.info_type_id
  and ml.movie_id = t.id
  and lt.id = ml.link_type_id
  and t2.id = ml.linked_movie_id
  and mc2.movie_id = t2.id
  and cn2.id = mc2.company_id
  and my2.movie_id = t2.id
  and kt2.id = t2.kind_id
  and mc.movie_id = mx.movie_id
  and mx.movie_id = ml.movie_id
  and kt.kind in ('movie', 'episode')
  and cn.country_code <> '[pl]' and (cn.name like '%Film%' or cn.name like '%Warner%')
  and itx.info = 'top 250 rank'
  and lt.link = 'spin off'
  and t2.production_year > 1990
  and my2.info < '6.0';
